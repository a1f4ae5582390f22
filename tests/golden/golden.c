/* Golden vectors: outputs of real implementations against the quantizers that should reproduce them.
 * usage: golden VARIANTS TREE [GLOB of variants]
 * Prints one line per variant; the exit code is 1 where anything differs or a variant has no file. */
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/check.h"

enum { FILES_MOST = 128 };

struct listing {
    char *name[FILES_MOST];
    size_t count;
};

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void list(const char *tree, const char *directory, struct listing *out) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", tree, directory);
    *out = (struct listing){.count = 0};
    DIR *handle = opendir(path);
    for (struct dirent *entry; handle != NULL && (entry = readdir(handle)) != NULL;)
        if (fnmatch("*.safetensors", entry->d_name, 0) == 0 && out->count < FILES_MOST)
            out->name[out->count++] = strdup(entry->d_name);
    if (handle != NULL) closedir(handle);
    qsort(out->name, out->count, sizeof *out->name, by_name);
}

static bool has(const struct listing *files, const char *name) {
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->name[i], name) == 0) return true;
    return false;
}

static bool has_cpu_twin(const struct listing *files, const char *name) {
    char twin[256];
    snprintf(twin, sizeof twin, "%.*s.cpu.safetensors", (int)strcspn(name, "."), name);
    return has(files, twin);
}

static bool run(const struct row *row, const char *tree) {
    const struct nib_quantizer *base = NULL, *quantizer = NULL;
    struct nib_error error;
    struct tally tally = {0};
    bool good = nib_quantizer_open(row->quantizer, &base, &error) == NIB_OK &&
                nib_quantizer_with(base, row->settings, row->setting_count, &quantizer, &error) == NIB_OK;
    if (!good) fprintf(stderr, "%s: %s\n", row->variant, error.text);
    struct listing files;
    list(tree, row->directory, &files);
    for (size_t i = 0; i < files.count && good; i++)
        if (row_has_file(row, files.name[i], has_cpu_twin(&files, files.name[i])))
            good = check_file(row, quantizer, tree, files.name[i], &tally);
    for (size_t i = 0; i < files.count; i++) free(files.name[i]);
    nib_quantizer_close(quantizer);
    nib_quantizer_close(base);
    if (tally.files == 0) snprintf(tally.first, sizeof tally.first, "no files");
    good = good && tally.files > 0 && tally.differing == 0;
    printf("%-44s %-36s %5llu %9llu %9llu %s\n", row->variant, row->quantizer, (unsigned long long)tally.files,
           (unsigned long long)tally.compared, (unsigned long long)tally.differing, good ? "" : tally.first);
    fflush(stdout);
    return good;
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: golden VARIANTS TREE [GLOB]\n");
        return 2;
    }
    size_t count, passed = 0, failed = 0;
    struct row *rows = rows_read(argv[1], &count);
    printf("%-44s %-36s %5s %9s %9s\n", "variant", "quantizer", "files", "compared", "differing");
    for (size_t i = 0; i < count; i++) {
        if (argc == 4 && fnmatch(argv[3], rows[i].variant, 0) != 0) continue;
        if (run(&rows[i], argv[2]))
            passed++;
        else
            failed++;
    }
    rows_free(rows, count);
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
