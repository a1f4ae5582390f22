#include "gpu/loader.h"

#include "base/error.h"
#include <dlfcn.h>
#include <nibble/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char plugin_name[] = "libnibble-cuda.so";

enum nib_status nib_gpu_status(int result, const char *message, struct nib_error *error) {
    switch (result) {
    case NIB_GPU_OK: return NIB_OK;
    case NIB_GPU_BAD_ARGUMENT: return nib_fail(error, NIB_EINVAL, "GPU: %s", message);
    case NIB_GPU_FAULT: return nib_fail(error, NIB_EIO, "GPU: %s; nothing it returned was used", message);
    default: return nib_fail(error, NIB_EUNAVAILABLE, "GPU: %s", message);
    }
}

/* The directory of the running program, with a trailing slash; empty when unknown. */
static void program_directory(char *out, size_t size) {
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length < 0) length = 0;
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    if (slash != NULL)
        slash[1] = '\0';
    else
        out[0] = '\0';
}

static void *open_first(struct nib_gpu *gpu, struct nib_error *error) {
    static const char *const places[] = {"", "../lib/nibble/", "../lib/", "../gpu/", "../src/gpu/"};
    const char *given = getenv("NIBBLE_GPU_PLUGIN");
    void *handle = NULL;
    if (given != NULL) {
        snprintf(gpu->path, sizeof gpu->path, "%s", given);
        handle = dlopen(gpu->path, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL) nib_fail(error, NIB_EUNAVAILABLE, "cannot open the plug-in that NIBBLE_GPU_PLUGIN names: %s", dlerror());
        return handle;
    }
    char directory[400];
    program_directory(directory, sizeof directory);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(gpu->path, sizeof gpu->path, "%s%s%s", directory, places[i], plugin_name);
        if (access(gpu->path, R_OK) != 0) continue;
        handle = dlopen(gpu->path, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL) nib_fail(error, NIB_EUNAVAILABLE, "cannot open the plug-in: %s", dlerror());
        return handle;
    }
    nib_fail(error, NIB_EUNAVAILABLE,
             "no CUDA plug-in (%s) beside the program; build one with -DNIBBLE_CUDA=ON where the CUDA 13 toolkit is", plugin_name);
    return NULL;
}

enum nib_status nib_gpu_open(int index, struct nib_gpu *out, struct nib_error *error) {
    struct nib_gpu gpu;
    char message[256] = "";
    memset(&gpu, 0, sizeof gpu);
    gpu.handle = open_first(&gpu, error);
    if (gpu.handle == NULL) return NIB_EUNAVAILABLE;
    gpu.plugin = dlsym(gpu.handle, NIB_GPU_PLUGIN_SYMBOL);
    enum nib_status status = NIB_OK;
    if (gpu.plugin == NULL)
        status = nib_fail_at(error, NIB_EINCONSISTENT, gpu.path, 0, "is no nibble plug-in: it does not export " NIB_GPU_PLUGIN_SYMBOL);
    else if (gpu.plugin->abi != NIB_GPU_PLUGIN_ABI || gpu.plugin->size != sizeof *gpu.plugin)
        status = nib_fail_at(error, NIB_EINCONSISTENT, gpu.path, 0, "has interface %u of %u bytes; this program expects %u of %zu bytes",
                             gpu.plugin->abi, gpu.plugin->size, (unsigned)NIB_GPU_PLUGIN_ABI, sizeof *gpu.plugin);
    else if (strcmp(gpu.plugin->version, nib_version()) != 0)
        status = nib_fail_at(error, NIB_EINCONSISTENT, gpu.path, 0, "is version %s; this program is %s", gpu.plugin->version, nib_version());
    else
        status = nib_gpu_status(gpu.plugin->open(index, message, sizeof message), message, error);
    if (status != NIB_OK) {
        dlclose(gpu.handle);
        return status;
    }
    *out = gpu;
    return NIB_OK;
}

void nib_gpu_close(struct nib_gpu *gpu) {
    if (gpu->handle == NULL) return;
    gpu->plugin->close();
    dlclose(gpu->handle);
    memset(gpu, 0, sizeof *gpu);
}
