/* Whether the golden files would notice a wrong choice: every axis of every quantizer is set to every other choice it
 * can have, and some file must then differ. usage: golden-mutation VARIANTS TREE
 * One flip of a choice to another has to be noticed once, by whichever quantizer and coming from
 * whichever other choice. It takes minutes: only at NIBBLE_TEST_LEVEL=full. Prints a line per axis; the exit code
 * is 1 where no flip of an axis is noticed at all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/quantizer.h"
#include "golden/check.h"
#include "golden/files.h"

enum { CHOICES_MOST = 48, FILES_TRIED = 8 };
enum state { UNTRIED, UNNOTICED, NOTICED };
static unsigned char states[NIB_AXES_MAX][CHOICES_MOST][CHOICES_MOST];

static bool notices(const struct row *row, const struct nib_quantizer *mutant, const char *tree, const struct files *files) {
    for (size_t i = 0; i < files->count && i < FILES_TRIED; i++) {
        struct tally tally = {0};
        if (!check_file(row, mutant, tree, files->name[i], &tally) || tally.differing > 0) return true;
    }
    return false;
}

/* The choice was noticed already, coming from another one. */
static bool is_settled(size_t axis, size_t to) {
    for (size_t from = 0; from < CHOICES_MOST; from++)
        if (states[axis][from][to] == NOTICED) return true;
    return false;
}

static void flip(const struct row *row, const struct nib_quantizer *q, const char *tree, const struct files *files, size_t axis,
                 const char *value, unsigned char *state) {
    char text[128];
    const char *setting = text;
    const struct nib_quantizer *mutant;
    if (*state == NOTICED) return;
    snprintf(text, sizeof text, "%s=%s", nib_axis_table[axis].name, value);
    if (nib_quantizer_with(q, &setting, 1, &mutant, NULL) != NIB_OK) return; /* does not apply here */
    *state = notices(row, mutant, tree, files) ? NOTICED : UNNOTICED;
    nib_quantizer_close(mutant);
}

static void flip_number(const struct row *row, const struct nib_quantizer *q, const char *tree, const struct files *files,
                        size_t axis) {
    static const char *const values[] = {"0", "0x1p-3", "1", "100", "inf"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) flip(row, q, tree, files, axis, values[i], &states[axis][0][i]);
}

static void mutate(const struct row *row, const char *tree) {
    const struct nib_quantizer *base, *q;
    struct nib_error error;
    if (nib_quantizer_open(row->quantizer, &base, &error) != NIB_OK ||
        nib_quantizer_with(base, row->settings, row->setting_count, &q, &error) != NIB_OK) {
        fprintf(stderr, "%s: %s\n", row->variant, error.text);
        exit(2);
    }
    struct files files;
    files_list(row, tree, &files);
    for (size_t k = 0; k < nib_axis_count; k++) {
        const struct nib_axis_info *axis = &nib_axis_table[k];
        if (!nib_axes_hold(&q->axes, k, q->block)) continue;
        if (axis->is_number) {
            flip_number(row, q, tree, &files, k);
            continue;
        }
        int now = *(const int *)(const void *)((const char *)&q->axes + axis->offset);
        for (size_t c = 0; c < axis->count; c++)
            if ((int)c != now && !is_settled(k, c)) flip(row, q, tree, &files, k, axis->choices[c].name, &states[k][now][c]);
    }
    files_free(&files);
    nib_quantizer_close(q);
    nib_quantizer_close(base);
}

/* A line for an axis, and its unnoticed flips behind it; false when nothing was noticed. */
static bool report(size_t k) {
    const struct nib_axis_info *axis = &nib_axis_table[k];
    size_t tried = 0, noticed = 0;
    for (size_t a = 0; a < CHOICES_MOST; a++)
        for (size_t b = 0; b < CHOICES_MOST; b++) {
            tried += states[k][a][b] != UNTRIED;
            noticed += states[k][a][b] == NOTICED;
        }
    printf("%-24s %6zu %8zu ", axis->name, tried, noticed);
    for (size_t a = 0; a < axis->count && !axis->is_number; a++)
        for (size_t b = 0; b < axis->count; b++)
            if (states[k][a][b] == UNNOTICED) printf(" %s->%s", axis->choices[a].name, axis->choices[b].name);
    printf("\n");
    return tried == 0 || noticed > 0;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: golden-mutation VARIANTS TREE\n");
        return 2;
    }
    const char *level = getenv("NIBBLE_TEST_LEVEL");
    if (level == NULL || strcmp(level, "full") != 0) {
        printf("skipped: takes minutes; set NIBBLE_TEST_LEVEL=full\n");
        return 77;
    }
    size_t count, passed = 0, failed = 0;
    struct row *rows = rows_read(argv[1], &count);
    for (size_t i = 0; i < count; i++) mutate(&rows[i], argv[2]);
    rows_free(rows, count);
    printf("%-24s %6s %8s  %s\n", "axis", "flips", "noticed", "not noticed");
    for (size_t k = 0; k < nib_axis_count; k++)
        if (report(k))
            passed++;
        else
            failed++;
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
