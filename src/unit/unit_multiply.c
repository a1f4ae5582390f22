/* D = C + A B^T by one chain of instructions for each output. */
#include <string.h>

#include "base/fpenv.h"
#include "unit/kernel.h"

static uint64_t load(const void *c, size_t index, unsigned bytes) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)c + index * bytes, bytes); /* little-endian */
    return bits;
}
static void store(void *d, size_t index, unsigned bytes, uint64_t bits) {
    memcpy((char *)d + index * bytes, &bits, bytes);
}

static void multiply_tile(const struct nib_unit_plan *plan, size_t i, size_t j, const void *c, size_t c_stride, void *d,
                          size_t d_stride) {
    uint64_t acc[NIB_TILE_MAX];
    const struct nib_unit_job *job = &plan->job;
    unsigned bytes = nib_accumulator_bytes(job->unit->accumulator);
    size_t row = i * plan->rows, column = j * plan->columns;
    memset(acc, 0, plan->rows * plan->columns * sizeof *acc);
    for (size_t r = 0; r < plan->rows && row + r < job->m && c != NULL; r++)
        for (size_t s = 0; s < plan->columns && column + s < job->n; s++)
            acc[r * plan->columns + s] = load(c, (row + r) * c_stride + column + s, bytes);
    nib_unit_plan_tile(plan, i, j, 0, job->k, acc);
    for (size_t r = 0; r < plan->rows && row + r < job->m; r++)
        for (size_t s = 0; s < plan->columns && column + s < job->n; s++)
            store(d, (row + r) * d_stride + column + s, bytes, acc[r * plan->columns + s]);
}

enum nib_status nib_unit_multiply(const struct nib_unit *unit, const struct nib_unit_matrix *a,
                                  const struct nib_unit_matrix *b, size_t m, size_t n, size_t k, const void *c,
                                  size_t c_stride, const struct nib_unit_options *options, void *d, size_t d_stride,
                                  struct nib_error *error) {
    struct nib_unit_job job = {.unit = unit, .a = a, .b = b, .m = m, .n = n, .k = k};
    struct nib_unit_plan plan;
    enum nib_status status = nib_unit_plan_init(&plan, &job, options, error);
    if (status != NIB_OK) return status;
    int64_t count = (int64_t)(plan.row_tiles * plan.column_tiles);
#pragma omp parallel num_threads(plan.threads)
    {
        struct nib_fpenv saved = nib_fpenv_enter();
        /* Column by column, so that a panel of B stays in the cache. */
#pragma omp for schedule(dynamic, 8)
        for (int64_t tile = 0; tile < count; tile++)
            multiply_tile(&plan, (size_t)tile % plan.row_tiles, (size_t)tile / plan.row_tiles, c, c_stride, d,
                          d_stride);
        nib_fpenv_leave(saved);
    }
    nib_unit_plan_clear(&plan);
    return NIB_OK;
}
