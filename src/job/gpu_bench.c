#include "job/gpu_bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { SHAPE, KERNEL, MICROSECONDS, BANDWIDTH, SHARE, ELEMENTS, RELATIVE, COLUMNS };
static const struct nib_column columns[COLUMNS] = {
    {"shape", "Shape", "", "rows x columns, bf16", NIB_COLUMN_TEXT, 0},
    {"kernel", "Kernel", "", "what was timed", NIB_COLUMN_TEXT, 0},
    {"microseconds", "us", "us", "best of the repetitions, by events on the device", NIB_COLUMN_REAL, 1},
    {"gigabytes_per_second", "GB/s", "GB/s", "bytes that the algorithm reads and writes, over the time", NIB_COLUMN_REAL, 0},
    {"copy_share", "Of copy", "1", "bandwidth over that of a device copy of the same shape", NIB_COLUMN_REAL, 2},
    {"elements_per_second", "Gelem/s", "1/s", "elements over time, in 1e9", NIB_COLUMN_REAL, 1},
    {"relative_to_quantization", "x alone", "1", "time over that of the same quantizer without rotation", NIB_COLUMN_REAL, 2},
};

/* The same quantizer without rotation: what stands before " rht". */
static double alone(const struct nib_gpu_timing *timings, size_t count, const char *name) {
    char wanted[96];
    const char *turn = strstr(name, " rht");
    if (turn == NULL) return NAN;
    snprintf(wanted, sizeof wanted, "%.*s, amax given", (int)(turn - name), name);
    for (size_t i = 0; i < count; i++)
        if (strcmp(timings[i].name, wanted) == 0) return timings[i].seconds;
    return NAN;
}

static enum nib_status add_shape(const struct nib_gpu *gpu, size_t rows, size_t cols, int repetitions,
                                 struct nib_table *table, struct nib_error *error) {
    struct nib_gpu_timing timings[64];
    char message[256] = "", shape[48];
    size_t count = 0;
    int code = gpu->plugin->bench(rows, cols, repetitions, timings, 64, &count, message, sizeof message);
    enum nib_status status = nib_gpu_status(code, message, error);
    if (status != NIB_OK) return status;
    snprintf(shape, sizeof shape, "%zux%zu", rows, cols);
    for (size_t i = 0; i < count; i++) {
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "gpu bench: out of memory");
        double rate = timings[i].bytes / timings[i].seconds, copy = timings[0].bytes / timings[0].seconds;
        nib_table_set_text(table, row, SHAPE, shape);
        nib_table_set_text(table, row, KERNEL, timings[i].name);
        nib_table_set_real(table, row, MICROSECONDS, timings[i].seconds * 1e6);
        nib_table_set_real(table, row, BANDWIDTH, rate * 1e-9);
        nib_table_set_real(table, row, SHARE, rate / copy);
        nib_table_set_real(table, row, ELEMENTS, (double)rows * (double)cols / timings[i].seconds * 1e-9);
        nib_table_set_real(table, row, RELATIVE, timings[i].seconds / alone(timings, count, timings[i].name));
    }
    return NIB_OK;
}

enum nib_status nib_gpu_bench_run(const struct nib_gpu *gpu, const size_t (*shapes)[2], size_t shape_count,
                                  int repetitions, struct nib_table **out, struct nib_error *error) {
    struct nib_table *table;
    enum nib_status status = nib_table_new("gpu_bench", columns, COLUMNS, &table, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < shape_count && status == NIB_OK; i++)
        status = add_shape(gpu, shapes[i][0], shapes[i][1], repetitions, table, error);
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}
