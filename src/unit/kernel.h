/* Fast models: one table of functions per algorithm and instruction set, and the plan that drives them. */
#ifndef NIB_UNIT_KERNEL_H
#define NIB_UNIT_KERNEL_H

#include <nibble/unit.h>

/* What a GPU kernel does outside the instruction: every `period` elements of K the accumulator is added
 * to a binary32 sum and starts again from zero. */
enum nib_outer_form {
    NIB_OUTER_NONE,
    NIB_OUTER_PROMOTE,   /* sum = RN(sum + part) */
    NIB_OUTER_PRODUCT,   /* sum = FMA(RN(sa * sb), part, sum) */
    NIB_OUTER_SEQUENTIAL /* sum = FMA(RN(part * sa), sb, sum) */
};
/* The scale of row i and period p is scale[i / rows * stride + p]. */
struct nib_outer_scales {
    const float *scale;
    size_t stride, rows;
};
struct nib_unit_outer {
    enum nib_outer_form form;
    size_t period;
    struct nib_outer_scales a, b;
};

/* One product: the operands as given, which the definition reads, and their extents. */
struct nib_unit_job {
    const struct nib_unit *unit;
    const struct nib_unit_matrix *a, *b;
    size_t m, n, k;
    struct nib_unit_outer outer;
};
static inline float nib_outer_scale(const struct nib_outer_scales *scales, size_t row, size_t period) {
    return scales->scale[row / scales->rows * scales->stride + period];
}

enum { NIB_TILE_MAX = 1024 }; /* outputs of one tile */

/* A kernel computes tiles of `rows` x `columns` outputs from packed rows of A and of B. */
struct nib_unit_kernel {
    const char *isa;
    size_t rows, columns;
    bool (*takes)(const struct nib_unit *unit, enum nib_operand a, enum nib_operand b);
    /* Bytes of one panel: `rows` rows of A, or `columns` rows of B, over all of K. */
    size_t (*a_bytes)(const struct nib_unit_job *job);
    size_t (*b_bytes)(const struct nib_unit_job *job);
    /* Packs the rows from `first` on into a panel; rows past the end are zero. */
    void (*pack_a)(const struct nib_unit_job *job, size_t first, void *panel);
    void (*pack_b)(const struct nib_unit_job *job, size_t first, void *panel);
    /* acc[rows x columns] = the chain over k in [k0, k1), multiples of unit->k, from the bits in acc.
     * Outputs past the end of the matrices may hold anything. */
    void (*tile)(const struct nib_unit_job *job, size_t row, size_t column, const void *panel_a, const void *panel_b,
                 size_t k0, size_t k1, uint64_t *acc);
    /* The same with the outer step inside; NULL where the plan does it around `tile`. NaN may have any bits. */
    void (*outer_tile)(const struct nib_unit_job *job, size_t row, size_t column, const void *panel_a,
                       const void *panel_b, size_t k0, size_t k1, float *sum);
};

/* Kernels of one instruction set, NULL-terminated; NULL where this build or machine has none. */
const struct nib_unit_kernel *const *nib_unit_kernels_generic(void);
const struct nib_unit_kernel *const *nib_unit_kernels_avx2(void);
const struct nib_unit_kernel *const *nib_unit_kernels_avx512(void);

/* Operands packed for the best kernel, or none ("ref"). Tiles may be computed in any order by any
 * thread that has entered the library's floating-point environment. */
struct nib_unit_plan {
    struct nib_unit_job job;
    const struct nib_unit_kernel *kernel; /* NULL: the definition */
    size_t rows, columns, row_tiles, column_tiles;
    size_t a_bytes, b_bytes;
    void *panels_a, *panels_b;
    int threads;
};
enum nib_status nib_unit_plan_init(struct nib_unit_plan *plan, const struct nib_unit_job *job,
                                   const struct nib_unit_options *options, struct nib_error *error);
void nib_unit_plan_clear(struct nib_unit_plan *plan);
/* acc[plan->rows x plan->columns]: the tile (i, j) over k in [k0, k1). */
void nib_unit_plan_tile(const struct nib_unit_plan *plan, size_t i, size_t j, size_t k0, size_t k1, uint64_t *acc);
/* sum[plan->rows x plan->columns], binary32, with the job's outer step; k0 is a multiple of the period. */
void nib_unit_plan_outer(const struct nib_unit_plan *plan, size_t i, size_t j, size_t k0, size_t k1, float *sum);

/* The definition over a part of K. */
uint64_t nib_unit_chain_ref(const struct nib_unit_job *job, size_t row, size_t column, size_t k0, size_t k1,
                            uint64_t c);

#endif
