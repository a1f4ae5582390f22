/* Finds and opens the CUDA plug-in. */
#ifndef NIB_GPU_LOADER_H
#define NIB_GPU_LOADER_H

#include "gpu/plugin.h"
#include <nibble/status.h>

struct nib_gpu {
    const struct nib_gpu_plugin *plugin;
    void *handle;
    char path[512];              /* where the plug-in was found */
};

/* Opens the plug-in, and device `index` with it. Looked for at $NIBBLE_GPU_PLUGIN (then nowhere else), beside
 * the executable, and in ../lib/nibble and ../src/gpu from there. NIB_EUNAVAILABLE says what is missing: the plug-in, the
 * driver, a device, or code for the device; NIB_EINCONSISTENT when the plug-in is of another version. */
NIB_CHECK enum nib_status nib_gpu_open(int index, struct nib_gpu *out, struct nib_error *error);
void nib_gpu_close(struct nib_gpu *gpu);
/* The status of a plug-in call that returned `result`, with its message. */
enum nib_status nib_gpu_status(int result, const char *message, struct nib_error *error);

#endif
