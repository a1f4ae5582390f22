/* The list of variants: which quantizer reproduces which outputs of which implementation. */
#ifndef NIB_GOLDEN_ROW_H
#define NIB_GOLDEN_ROW_H

#include <nibble/quantizer.h>

enum { ROW_SETTINGS = 8, ROW_OPTIONS = 16 };

/* Files of a directory come in pairs: CASE.safetensors from a GPU and, where an x86-64 CPU gave other bytes,
 * CASE.cpu.safetensors. */
enum row_files {
    ROW_GPU,                     /* the first kind */
    ROW_CPU,                     /* the second kind */
    ROW_CPU_ALL,                 /* what a CPU gave: the second kind, and the first where there is no second */
    ROW_ANY                      /* both kinds */
};

struct row {
    char *line;                  /* what the other members point into */
    const char *variant, *directory, *quantizer;
    enum row_files files;
    const char *settings[ROW_SETTINGS];
    size_t setting_count;
    const char *options[ROW_OPTIONS]; /* "key=value" */
    size_t option_count;
};

/* All rows; exits with a message when the file is not as it should be. The caller frees with rows_free. */
struct row *rows_read(const char *path, size_t *count);
void rows_free(struct row *rows, size_t count);
/* The value of an option, NULL without it. */
const char *row_option(const struct row *row, const char *key);
/* Whether the row is about a file of its directory ("adv_f32.cpu.safetensors"). */
bool row_has_file(const struct row *row, const char *name, bool has_cpu_twin);

#endif
