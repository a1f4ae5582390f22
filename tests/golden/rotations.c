/* Rotations of real kernels, bit by bit.  usage: golden-rotations [...] DIRECTORY */
#include <dirent.h>
#include <math.h>
#include <nibble/rotate.h>
#include <nibble/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"

static const char head[] = "kind: rotation\ntitle: golden\nsource: golden\n";
static const char signs[] = "signs: [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1]\n";

/* Tensors of a directory and the rotations that give them; where sized, the directory's name ends in the size. */
static const struct {
    const char *directory, *tensor, *text;
    bool transposed, sized;
} rows[] = {
    {"fht_", "y_norm", "flush: true\n", false, true},
    {"fht_", "y_scale1", "flush: true\nnormalization: none\n", false, true},
    {"hadacore_", "y", "evaluation: unit\nunit: hopper-mma-16bit-f32\nstages: bf16\n", false, true},
    {"te_rht_kernel", "rht", "evaluation: unit\nunit: hopper-mma-16bit-f32\n", false, false},
    {"te_rht_kernel", "rht_t", "evaluation: unit\nunit: hopper-mma-16bit-f32\n", true, false},
    {"te_rht_kernel_inverse", "rht", "evaluation: unit\nunit: hopper-mma-16bit-f32\ninverse: true\n", false, false},
    {"te_rht_kernel_inverse", "rht_t", "evaluation: unit\nunit: hopper-mma-16bit-f32\ninverse: true\n", true, false},
};

static unsigned long long compared, differing, files;

static bool view_of(struct nib_file *file, const char *name, struct nib_view *view) {
    size_t index;
    struct nib_error error;
    return nib_file_find(file, name, &index, &error) == NIB_OK && nib_file_view(file, index, false, view, &error) == NIB_OK;
}

static uint32_t bits_at(struct nib_view v, size_t row, size_t col) {
    size_t at = row * v.stride + col;
    uint32_t bits = v.dtype == NIB_F32 ? ((const uint32_t *)v.data)[at] : nib_bits_of_bf16(((const uint16_t *)v.data)[at]);
    return nib_bits_are_nan(bits) ? 0x7FFFFFFF : bits;
}

/* 1 if bits differ, 2 where the files cannot be used. */
static int check(size_t row, const char *tree, const char *directory, const char *name) {
    char path[600], text[600];
    struct nib_error error = {0};
    struct nib_file *input = NULL, *golden = NULL;
    struct nib_view x, expected;
    unsigned size = rows[row].sized ? (unsigned)atoi(directory + strlen(rows[row].directory)) : 16;
    snprintf(path, sizeof path, "%s/%s/%s", tree, directory, name);
    if (nib_file_open(path, &golden, &error) != NIB_OK) return 2;
    snprintf(path, sizeof path, "%s/inputs/%s", tree, name);
    int result = 2;
    if (nib_file_open(path, &input, &error) == NIB_OK && view_of(input, "x", &x)) {
        if (!view_of(golden, rows[row].tensor, &expected)) {
            result = 0;
            goto done;
        }
        int used = snprintf(text, sizeof text, "%s%ssize: %u\n%soutput: %s\n", head, rows[row].sized ? "" : signs, size,
                            rows[row].text, expected.dtype == NIB_F32 ? "fp32" : "bf16");
        const struct nib_rotation *rotation = NULL;
        if (rows[row].sized && x.cols % size != 0 && x.rows * x.cols % size == 0 && x.stride == x.cols) {
            /* groups run on across rows */
            x = (struct nib_view){x.data, x.dtype, x.rows * x.cols / size, size, size};
            expected = (struct nib_view){expected.data, expected.dtype, expected.rows * expected.cols / size, size, size};
        }
        float *y = calloc(x.rows * x.cols, sizeof *y);
        enum nib_axis axis = rows[row].transposed ? NIB_ALONG_ROWS : NIB_ALONG_COLS;
        if (nib_rotation_parse(text, (size_t)used, "golden.yaml", &rotation, &error) == NIB_OK &&
            nib_rotate(rotation, x, axis, 1, y, &error) == NIB_OK) {
            unsigned long long wrong = 0;
            for (size_t r = 0; r < expected.rows; r++)
                for (size_t c = 0; c < expected.cols; c++) {
                    uint32_t bits = nib_bits_of_float(rows[row].transposed ? y[c * x.cols + r] : y[r * x.cols + c]);
                    wrong += bits_at(expected, r, c) != bits;
                }
            compared += expected.rows * expected.cols;
            differing += wrong;
            files++;
            result = wrong != 0;
            if (wrong != 0) printf("%s/%s %s: %llu differ\n", directory, name, rows[row].tensor, wrong);
        } else
            printf("%s/%s: %s\n", directory, name, error.text);
        free(y);
        nib_rotation_close(rotation);
    } else
        printf("%s: %s\n", path, error.text);
done:
    nib_file_close(input);
    nib_file_close(golden);
    return result;
}

static bool applies(size_t row, const char *directory) {
    size_t length = strlen(rows[row].directory);
    return rows[row].sized ? strncmp(directory, rows[row].directory, length) == 0 : strcmp(directory, rows[row].directory) == 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    DIR *tree = opendir(arguments[count - 1]);
    if (tree == NULL) return 77;
    int worst = 0;
    for (struct dirent *d; (d = readdir(tree)) != NULL;)
        for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
            if (!applies(row, d->d_name)) continue;
            char path[600];
            snprintf(path, sizeof path, "%s/%s", arguments[count - 1], d->d_name);
            DIR *inside = opendir(path);
            for (struct dirent *f; inside != NULL && (f = readdir(inside)) != NULL;)
                if (strstr(f->d_name, ".safetensors") != NULL) {
                    int result = check(row, arguments[count - 1], d->d_name, f->d_name);
                    worst = result > worst ? result : worst;
                }
            if (inside != NULL) closedir(inside);
        }
    closedir(tree);
    printf("%llu tensors, %llu values, %llu differ\n", files, compared, differing);
    return files == 0 ? 77 : worst;
}
