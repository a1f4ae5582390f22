/* Sums over the elements of a block come in exactly the order of the definition, whatever the instruction set: another
 * order differs in the last bits, which decides between candidates too rarely for whole tensors to show it. */
#include <math.h>
#include "nib_agreement.h"
#include "quantize/eden.h"
#include "quantize/quantize_ref.h"
#include "quantize/stages.h"

enum { MOST_ELEMENTS = NIB_TILE * 32 };
static const char *const isas[] = {"generic", "avx2", "avx512"};

static bool open_isa(const char *name, const struct nib_isa **isa) {
    struct nib_error error;
    bool reference;
    return nib_isa_choose(name, isa, &reference, &error) == NIB_OK;
}

static void fill(float *d) {
    for (int i = 0; i < MOST_ELEMENTS; i++) {
        float sign = nib_next() % 2 == 0 ? 1 : -1;
        d[i] = sign * ldexpf((float)(nib_next() >> 8), -24 - (int)(nib_next() % 6));
    }
}

static void terms_of(const struct nib_axes *axes, const float *d, float *terms) {
    bool differences = axes->error_order == NIB_ERROR_ORDER_FMA_HALVES;
    for (int i = 0; i < MOST_ELEMENTS; i++)
        terms[i] = differences ? d[i] : axes->error_metric == NIB_ERROR_MSE ? d[i] * d[i] : fabsf(d[i]);
}

static void compare_lines(const struct nib_quantizer *q, enum nib_summation summation, unsigned size) {
    static float d[MOST_ELEMENTS], terms[MOST_ELEMENTS];
    const struct nib_isa *isa;
    for (int i = 0; i < 3; i++)
        for (size_t blocks = NIB_TILE; blocks > NIB_TILE - 10 && open_isa(isas[i], &isa); blocks -= 3) {
            float errors[NIB_TILE];
            fill(d);
            terms_of(&q->axes, d, terms);
            isa->sums(terms, blocks, size, summation, errors);
            for (size_t b = 0; b < blocks; b++) {
                float right = nib_ref_error_sum(q, d + b * size, size, size);
                NIB_CHECKF(memcmp(&right, &errors[b], sizeof right) == 0,
                           "%s, order %d, block %zu of %zu of %u: %a for %a", isa->name, q->axes.error_order, b, blocks,
                           size, (double)errors[b], (double)right);
            }
        }
}

static void compare_squares(const struct nib_quantizer *q, enum nib_summation summation, size_t across) {
    enum { SIDE = 16 };
    static float d[MOST_ELEMENTS], terms[MOST_ELEMENTS];
    const struct nib_isa *isa;
    for (int i = 0; i < 3 && open_isa(isas[i], &isa); i++) {
        float errors[NIB_TILE], square[SIDE * SIDE];
        fill(d);
        terms_of(&q->axes, d, terms);
        isa->square_sums(terms, NIB_TILE, across, summation, errors);
        for (size_t b = 0; b < NIB_TILE; b++) {
            size_t band = b / (SIDE * across), column = b % across;
            for (size_t r = 0; r < SIDE; r++)
                memcpy(square + r * SIDE, d + ((band * SIDE + r) * across + column) * SIDE, SIDE * sizeof *d);
            float right = nib_ref_error_sum(q, square, SIDE * SIDE, SIDE);
            NIB_CHECKF(memcmp(&right, &errors[b], sizeof right) == 0, "%s, order %d, line %zu: %a for %a", isa->name,
                       q->axes.error_order, b, (double)errors[b], (double)right);
        }
    }
}

static void errors_are_summed_in_order(void) {
    static const struct {
        int order, metric;
        enum nib_summation line, square;
    } cases[] = {{NIB_ERROR_ORDER_SEQUENTIAL, NIB_ERROR_MSE, NIB_SUM_SEQUENTIAL, NIB_SUMMATIONS},
                 {NIB_ERROR_ORDER_ROWS, NIB_ERROR_MAE, NIB_SUM_SEQUENTIAL, NIB_SUM_ROWS},
                 {NIB_ERROR_ORDER_TREE, NIB_ERROR_MSE, NIB_SUM_TREE, NIB_SUMMATIONS},
                 {NIB_ERROR_ORDER_CUDA_256, NIB_ERROR_MSE, NIB_SUMMATIONS, NIB_SUM_CUDA_256},
                 {NIB_ERROR_ORDER_LANES, NIB_ERROR_MSE, NIB_SUM_LANES, NIB_SUM_LANES_256},
                 {NIB_ERROR_ORDER_FMA_HALVES, NIB_ERROR_MSE, NIB_SUM_SQUARES, NIB_SUMMATIONS},
                 {NIB_ERROR_ORDER_LANES, NIB_ERROR_MAX, NIB_SUM_MOST, NIB_SUM_MOST}};
    const struct nib_quantizer *opened;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &opened, &error), error);
    struct nib_quantizer q = *opened;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        q.axes.error_order = cases[i].order;
        q.axes.error_metric = cases[i].metric;
        for (unsigned size = 16; size <= 32 && cases[i].line != NIB_SUMMATIONS; size *= 2)
            compare_lines(&q, cases[i].line, size);
        for (size_t across = 1; across <= 4 && cases[i].square != NIB_SUMMATIONS; across *= 2)
            compare_squares(&q, cases[i].square, across);
    }
    nib_quantizer_close(opened);
}

/* A standard deviation that lies on a power of two up to its last bit: blocks are scaled until it does. */
static void place_on_border(float *x, unsigned size) {
    const float target = (float)(2.92247856 / 6);
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < size; i++) sum += (double)x[i], squares += (double)x[i] * (double)x[i];
    double mean = sum / size, deviation = sqrt(squares / size - mean * mean);
    float factor = (float)(1 / (deviation * (double)target));
    for (unsigned i = 0; i < size; i++) x[i] *= factor;
}

static void deviations_are_summed_in_order(void) {
    const struct nib_quantizer *q;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantizer_open("quartet1-mxfp4-quest", &q, &error), error);
    struct nib_tensor_scale t = nib_tensor_scale_from(q, NIB_F32, &(struct nib_quantize_options){0}, 1);
    static float x[MOST_ELEMENTS];
    unsigned above = 0, below = 0;
    for (int trial = 0; trial < 20; trial++) {
        fill(x);
        for (size_t b = 0; b < NIB_TILE; b++) place_on_border(x + b * 32, 32);
        for (int i = 0; i < 3; i++) {
            struct nib_stages stages;
            const struct nib_isa *isa;
            float out[NIB_TILE];
            if (!open_isa(isas[i], &isa)) continue;
            nib_stages_make(q, &t, isa, false, &stages);
            size_t blocks = NIB_TILE - (size_t)trial;
            isa->quest_scale(&stages.k, x, blocks, 32, out);
            for (size_t b = 0; b < blocks; b++) {
                float right = nib_ref_scale_of(q, &t, x + b * 32, 32, nib_ref_amax(q, x + b * 32, 32), 1).before;
                NIB_CHECKF(out[b] == right, "%s, block %zu of %zu: %a for %a", isa->name, b, blocks, (double)out[b],
                           (double)right);
                above += right >= 1;
                below += right < 1;
            }
        }
    }
    NIB_CHECKF(above > 100 && below > 100, "%u scales above the border, %u below", above, below);
    nib_quantizer_close(q);
}

/* Triton's dot of 128: fused multiply-adds over runs of 8 elements under bfloat16 input, of 4 else; then run i with run
 * i + n/2, until one is left. */
static float triton_dot(const float *a, const float *b, unsigned run) {
    float sum[NIB_EDEN_GROUP / 4];
    unsigned count = NIB_EDEN_GROUP / run;
    for (unsigned i = 0; i < NIB_EDEN_GROUP; i++)
        sum[i / run] = i % run == 0 ? a[i] * b[i] : fmaf(a[i], b[i], sum[i / run]);
    for (; count > 1; count /= 2)
        for (unsigned i = 0; i < count / 2; i++) sum[i] += sum[i + count / 2];
    return sum[0];
}

static void groups_of_eden_are_summed_in_order(void) {
    static float x[MOST_ELEMENTS];
    const struct nib_quantizer *q;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantizer_open("quartet2-nvfp4-eden", &q, &error), error);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int i = 0; i < 3; i++) {
            const enum nib_dtype dtype = bf16 ? NIB_BF16 : NIB_F32;
            struct nib_tensor_scale t = nib_tensor_scale_from(q, dtype, &(struct nib_quantize_options){0}, 1);
            struct nib_stages stages;
            const struct nib_isa *isa;
            if (!open_isa(isas[i], &isa)) continue;
            nib_stages_make(q, &t, isa, false, &stages);
            stages.k.precision = NIB_ELEMENT_FP32; /* the order alone is meant: sums of numbers that round */
            fill(x);
            for (unsigned at = 0; at < MOST_ELEMENTS; at += NIB_EDEN_GROUP) {
                float ones[NIB_EDEN_GROUP / 16], level[NIB_EDEN_GROUP], square, product;
                uint8_t codes[NIB_EDEN_GROUP];
                for (unsigned j = 0; j < NIB_EDEN_GROUP / 16; j++) ones[j] = 1;
                for (unsigned j = 0; j < NIB_EDEN_GROUP; j++) {
                    codes[j] = nib_next() % NIB_CODES;
                    level[j] = q->block->element->level[codes[j]];
                }
                isa->eden_dots(&stages.k, x + at, ones, codes, 16, NIB_MULTIPLY, &square, &product);
                float right = triton_dot(x + at, x + at, bf16 ? 8 : 4), other = triton_dot(x + at, level, bf16 ? 8 : 4);
                NIB_CHECKF(square == right && product == other, "%s, bf16 %d: %a for %a, %a for %a", isa->name, bf16,
                           (double)square, (double)right, (double)product, (double)other);
            }
        }
    nib_quantizer_close(q);
}

static void reciprocals_of_powers_are_the_definition_s(void) {
    static const char *const names[] = {"quartet1-mxfp4-quest", "quartet1-mxfp4-absmax"};
    struct nib_error error;
    for (int n = 0; n < 2; n++) {
        const struct nib_quantizer *q;
        NIB_OK_OR_FAIL(nib_quantizer_open(names[n], &q, &error), error);
        struct nib_tensor_scale t = nib_tensor_scale_from(q, NIB_F32, &(struct nib_quantize_options){0}, 1);
        for (int i = 0; i < 3; i++) {
            struct nib_stages stages;
            const struct nib_isa *isa;
            if (!open_isa(isas[i], &isa)) continue;
            nib_stages_make(q, &t, isa, false, &stages);
            for (int exponent = -160; exponent < 128; exponent += NIB_TILE) {
                float s[NIB_TILE], factor[NIB_TILE];
                for (int e = 0; e < NIB_TILE; e++) s[e] = ldexpf(n == 0 ? 1 : stages.k.approx_3_4, exponent + e);
                stages.factor(&stages.k, s, factor);
                for (int e = 0; e < NIB_TILE; e++) {
                    float right = nib_factor_under(q, &t, s[e]);
                    NIB_CHECKF(right == factor[e] || (isnan(right) && isnan(factor[e])), "%s, %s, 1/%a: %a for %a",
                               names[n], isa->name, (double)s[e], (double)factor[e], (double)right);
                }
            }
        }
        nib_quantizer_close(q);
    }
}

NIB_TEST_MAIN("quantize sums", {"errors are summed in order", errors_are_summed_in_order},
              {"deviations are summed in order", deviations_are_summed_in_order},
              {"groups of MS-EDEN are summed in order", groups_of_eden_are_summed_in_order},
              {"reciprocals of powers are the definition's", reciprocals_of_powers_are_the_definition_s})
