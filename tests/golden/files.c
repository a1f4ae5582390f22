#include "golden/files.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool has_cpu_twin(const struct files *files, const char *name) {
    char twin[256];
    snprintf(twin, sizeof twin, "%.*s.cpu.safetensors", (int)strcspn(name, "."), name);
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->name[i], twin) == 0) return true;
    return false;
}

void files_list(const struct row *row, const char *tree, struct files *out) {
    char path[1024];
    struct files all = {.count = 0};
    snprintf(path, sizeof path, "%s/%s", tree, row->directory);
    DIR *handle = opendir(path);
    for (struct dirent *entry; handle != NULL && (entry = readdir(handle)) != NULL;)
        if (fnmatch("*.safetensors", entry->d_name, 0) == 0 && all.count < FILES_MOST)
            all.name[all.count++] = strdup(entry->d_name);
    if (handle != NULL) closedir(handle);
    qsort(all.name, all.count, sizeof *all.name, by_name);
    out->count = 0;
    for (size_t i = 0; i < all.count; i++)
        if (row_has_file(row, all.name[i], has_cpu_twin(&all, all.name[i]))) out->name[out->count++] = strdup(all.name[i]);
    files_free(&all);
}

void files_free(struct files *files) {
    for (size_t i = 0; i < files->count; i++) free(files->name[i]);
    files->count = 0;
}
