/* Golden vectors: outputs of real implementations against the quantizers that should reproduce them.
 * usage: golden VARIANTS TREE [GLOB of variants]
 * Prints one line per variant; the exit code is 1 where anything differs or a variant has no file. */
#include <fnmatch.h>
#include <stdio.h>

#include "golden/check.h"
#include "golden/files.h"

static bool run(const struct row *row, const char *tree) {
    const struct nib_quantizer *base = NULL, *quantizer = NULL;
    struct nib_error error;
    struct tally tally = {0};
    bool good = nib_quantizer_open(row->quantizer, &base, &error) == NIB_OK &&
                nib_quantizer_with(base, row->settings, row->setting_count, &quantizer, &error) == NIB_OK;
    if (!good) fprintf(stderr, "%s: %s\n", row->variant, error.text);
    struct files files;
    files_list(row, tree, &files);
    for (size_t i = 0; i < files.count && good; i++) good = check_file(row, quantizer, tree, files.name[i], &tally);
    files_free(&files);
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
