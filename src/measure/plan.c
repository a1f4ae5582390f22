#include "measure/plan.h"

enum { CHUNK = 1 << 16, ENOUGH_BATCHES = 8 };

static size_t parts(size_t whole, size_t part) { return (whole + part - 1) / part; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Whole units of at most `limit` elements, but at least one unit. */
static size_t whole_units(size_t limit, size_t unit) { return limit < unit ? unit : limit / unit * unit; }

void nib_plan_make(size_t rows, size_t cols, size_t unit_rows, size_t unit_cols, struct nib_plan *out) {
    struct nib_plan plan = {.rows = rows, .cols = cols};
    size_t units_of_rows = parts(rows, unit_rows), units_of_cols = parts(cols, unit_cols);
    plan.by_rows = units_of_rows >= ENOUGH_BATCHES || units_of_rows >= units_of_cols;
    plan.unit = plan.by_rows ? unit_rows : unit_cols;
    plan.batches = (unsigned)smaller(plan.by_rows ? units_of_rows : units_of_cols, NIB_BATCHES);
    plan.chunk_cols = whole_units(smaller(CHUNK / unit_rows, units_of_cols * unit_cols), unit_cols);
    plan.chunk_rows = whole_units(CHUNK / plan.chunk_cols, unit_rows);
    *out = plan;
}

struct nib_rectangle nib_plan_batch(const struct nib_plan *plan, unsigned batch) {
    size_t extent = plan->by_rows ? plan->rows : plan->cols, units = parts(extent, plan->unit);
    size_t first = units * batch / plan->batches * plan->unit;
    size_t last = smaller(units * (batch + 1) / plan->batches * plan->unit, extent);
    return plan->by_rows ? (struct nib_rectangle){first, 0, last - first, plan->cols}
                         : (struct nib_rectangle){0, first, plan->rows, last - first};
}

size_t nib_plan_chunks(const struct nib_plan *plan, unsigned batch) {
    struct nib_rectangle all = nib_plan_batch(plan, batch);
    return parts(all.rows, plan->chunk_rows) * parts(all.cols, plan->chunk_cols);
}

struct nib_rectangle nib_plan_chunk(const struct nib_plan *plan, unsigned batch, size_t chunk) {
    struct nib_rectangle all = nib_plan_batch(plan, batch);
    size_t per_band = parts(all.cols, plan->chunk_cols);
    size_t row = chunk / per_band * plan->chunk_rows, col = chunk % per_band * plan->chunk_cols;
    return (struct nib_rectangle){all.row + row, all.col + col, smaller(plan->chunk_rows, all.rows - row),
                                  smaller(plan->chunk_cols, all.cols - col)};
}
