/* One output element by definition: the chain of blocks over k. */
#include "unit/unit_ref.h"

#include <math.h>
#include <string.h>

#include "base/fpenv.h"
#include "unit/kernel.h"

static uint64_t integer_instruction(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                                    size_t count, uint64_t c) {
    int64_t sum = (int32_t)(uint32_t)c;
    for (size_t k = 0; k < count; k++) {
        int64_t product = (int64_t)(a[k].significand * b[k].significand);
        sum += a[k].negative != b[k].negative ? -product : product;
    }
    if (unit->saturate) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

/* The initial accumulator of the flushing units loses its sign where it is subnormal. */
static uint64_t flushed_start(uint64_t c) { return (c & 0x7F800000) == 0 ? 0 : c; }

static void load(const struct nib_unit_matrix *x, size_t row, size_t first, size_t count, struct nib_number *out) {
    const uint8_t *bytes = (const uint8_t *)x->bits + row * x->stride;
    for (size_t i = 0; i < count; i++)
        out[i] = nib_number_of_operand(x->operand, nib_operand_load(x->operand, bytes, first + i));
}

uint64_t nib_unit_chain_ref(const struct nib_unit_job *job, size_t row_a, size_t row_b, size_t k0, size_t k1,
                            uint64_t c) {
    const struct nib_unit *unit = job->unit;
    const struct nib_unit_matrix *a = job->a, *b = job->b;
    struct nib_number x[NIB_UNIT_BLOCK_MAX], y[NIB_UNIT_BLOCK_MAX];
    struct nib_number scale_x[NIB_UNIT_BLOCK_MAX], scale_y[NIB_UNIT_BLOCK_MAX];
    bool scaled = unit->scale_block != 0;
    const uint8_t *scales_a = scaled ? a->scales + row_a * a->scale_stride : NULL;
    const uint8_t *scales_b = scaled ? b->scales + row_b * b->scale_stride : NULL;
    if (unit->model == NIB_UNIT_FTZ_PAIRWISE && k0 == 0) c = flushed_start(c);
    for (size_t first = k0; first < k1; first += unit->block) {
        load(a, row_a, first, unit->block, x);
        load(b, row_b, first, unit->block, y);
        switch (unit->model) {
        case NIB_UNIT_T_FDPA: c = nib_ref_t_fdpa(unit, x, y, unit->block, 0, c); break;
        case NIB_UNIT_ST_FDPA: {
            struct nib_number sa = nib_number_of_scale(unit->scale, scales_a[first / unit->scale_block]);
            struct nib_number sb = nib_number_of_scale(unit->scale, scales_b[first / unit->scale_block]);
            if (sa.class == NIB_NUMBER_NAN || sb.class == NIB_NUMBER_NAN)
                c = nib_nvidia_nan_bits(unit->accumulator);
            else
                c = nib_ref_t_fdpa(unit, x, y, unit->block, sa.exponent + sb.exponent, c);
            break;
        }
        case NIB_UNIT_GST_FDPA: {
            size_t groups = unit->block / unit->group;
            for (size_t j = 0; j < groups; j++) {
                size_t i = (first + j * unit->group) / unit->scale_block;
                scale_x[j] = nib_number_of_scale(unit->scale, scales_a[i]);
                scale_y[j] = nib_number_of_scale(unit->scale, scales_b[i]);
            }
            c = nib_ref_gst_fdpa(unit, x, y, groups, scale_x, scale_y, c);
            break;
        }
        case NIB_UNIT_SPLIT_T_FDPA: c = nib_ref_split_t_fdpa(unit, x, y, unit->block, c); break;
        case NIB_UNIT_INTEGER: c = integer_instruction(unit, x, y, unit->block, c); break;
        case NIB_UNIT_E_FDPA: c = nib_ref_e_fdpa(x, y, unit->block, c); break;
        case NIB_UNIT_FTZ_PAIRWISE: c = nib_ref_ftz_pairwise(x, y, unit->block, c); break;
        case NIB_UNIT_TR_FDPA: c = nib_ref_tr_fdpa(unit, x, y, unit->block, c); break;
        case NIB_UNIT_GTR_FDPA: c = nib_ref_gtr_fdpa(unit, x, y, unit->block, c); break;
        default: /* FMA chain: blocks of one */
            c = nib_ref_fma(unit, nib_operand_load(a->operand, (const uint8_t *)a->bits + row_a * a->stride, first),
                            nib_operand_load(b->operand, (const uint8_t *)b->bits + row_b * b->stride, first), c);
        }
    }
    return c;
}

uint64_t nib_unit_dot_ref(const struct nib_unit *unit, const struct nib_unit_matrix *a, size_t row_a,
                          const struct nib_unit_matrix *b, size_t row_b, size_t k, uint64_t c) {
    struct nib_unit_job job = {.unit = unit, .a = a, .b = b, .m = row_a + 1, .n = row_b + 1, .k = k};
    struct nib_fpenv saved = nib_fpenv_enter();
    c = nib_unit_chain_ref(&job, row_a, row_b, 0, k, c);
    nib_fpenv_leave(saved);
    return c;
}
