/* nibble gemm: a matrix product through a matrix unit. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/gemm_input.h"
#include "cli/gemm_output.h"
#include "cli/output.h"
#include "gemm/view_value.h"

static const struct nib_gemm_arguments defaults = {
    .tensor_scale_a = NAN, .tensor_scale_b = NAN, .alpha = 1, .split_k = 1, .interleave = 2};
static const char *const b_layouts[] = {"nk", "kn", NULL};
static const char *const scale_layouts[] = {"linear", "128x4", NULL};
static const char *const orders[] = {"ascending", "descending", "interleaved", NULL};     /* enum nib_gemm_order */
static const char *const scalings[] = {"product", "sequential", NULL};                    /* enum nib_gemm_scaling */
static const char *const outputs[] = {"f32", "bf16", "f16", "e4m3", "accumulator", NULL}; /* enum nib_gemm_output */

#define S struct nib_gemm_arguments
static const struct nib_option options[] = {
    NIB_OPT_TEXT(S, unit, "unit", 'u', "UNIT", "a name that 'nibble list units' gives, or a YAML file"),
    NIB_OPT_TEXT(S, quantizer, "quantizer", 'q', "QUANTIZER", "quantize both operands; blocks run along K"),
    NIB_OPT_TEXT(S, quantizer_a, "quantizer-a", 0, "QUANTIZER", "quantize A"),
    NIB_OPT_TEXT(S, quantizer_b, "quantizer-b", 0, "QUANTIZER", "quantize B"),
    NIB_OPT_TEXTS(S, settings, "set", 's', "AXIS=VALUE", "change one arithmetic choice of the quantizers"),
    NIB_OPT_FLAG(S, fake, "fake", 0, "multiply the dequantized values in an operand format of the unit, such as bf16"),
    NIB_OPT_TEXT(S, operand, "operand", 0, "OPERAND",
                 "operand format of both; where the unit takes only one, that one"),
    NIB_OPT_TEXT(S, operand_a, "operand-a", 0, "OPERAND", "operand format of A"),
    NIB_OPT_TEXT(S, operand_b, "operand-b", 0, "OPERAND", "operand format of B"),
    NIB_OPT_FLAG(S, codes, "codes", 'c',
                 "the files hold packed codes: M x K and N x K elements, 4-bit ones two a byte"),
    NIB_OPT_TEXT(S, scales_a, "scales-a", 0, "FILE[:tensor]", "block scales of the packed A"),
    NIB_OPT_TEXT(S, scales_b, "scales-b", 0, "FILE[:tensor]", "block scales of the packed B"),
    NIB_OPT_CHOICE(S, scale_layout, "scale-layout", 0, "LAYOUT", scale_layouts, "linear (the default) or 128x4 tiles"),
    NIB_OPT_FLOAT(S, tensor_scale_a, "tensor-scale-a", 0, "D", 0, INFINITY, "tensor decode scale of A"),
    NIB_OPT_FLOAT(S, tensor_scale_b, "tensor-scale-b", 0, "D", 0, INFINITY, "tensor decode scale of B"),
    NIB_OPT_TEXT(S, gaussian, "gaussian", 'g', "MxNxK", "multiply Gaussian numbers instead of files"),
    NIB_OPT_CHOICE(S, b_layout, "b-layout", 0, "LAYOUT", b_layouts, "B as N x K (nk, the default) or K x N (kn)"),
    NIB_OPT_CHOICE(S, order, "k-order", 0, "ORDER", orders, "how instructions walk K; ascending by default"),
    NIB_OPT_INTEGER(S, interleave, "interleave", 0, "W", 1, 1 << 20, "width of the interleaved order"),
    NIB_OPT_INTEGER(S, split_k, "split-k", 0, "N", 1, 1 << 20, "parts of K that are added in binary32"),
    NIB_OPT_INTEGER(S, promote, "promote", 0, "N", 0, 1 << 20, "instructions between additions to a binary32 sum"),
    NIB_OPT_CHOICE(S, scaling, "scaling", 0, "FORM", scalings,
                   "block scales of the epilogue: FMA(RN(sa sb), p, s), the default, or FMA(RN(p sa), sb, s)"),
    NIB_OPT_FLOAT(S, alpha, "alpha", 0, "X", -INFINITY, INFINITY, "factor of the epilogue beside the tensor scales"),
    NIB_OPT_FLOAT(S, beta, "beta", 0, "X", -INFINITY, INFINITY, "factor of C"),
    NIB_OPT_TEXT(S, c, "c", 0, "FILE[:tensor]", "the matrix C"),
    NIB_OPT_CHOICE(S, output, "output-type", 0, "TYPE", outputs, "f32 by default; accumulator: the unit's bits"),
    NIB_OPT_FLAG(S, error, "error", 'e', "compare with the exact product"),
    NIB_OPT_FLAG(S, anatomy, "anatomy", 0, "divide the error between A, B and the accumulation"),
    NIB_OPT_INTEGER(S, samples, "samples", 0, "N", 0, INT64_MAX,
                    "outputs that --error and --anatomy look at; by default as many as 2^27 multiplications allow"),
    NIB_OPT_TEXT(S, isa, "isa", 0, "ISA", "generic, avx2, avx512 or ref; by default the best (also NIBBLE_ISA)"),
    NIB_OPT_END,
};
#undef S

static const struct nib_example examples[] = {
    {"nibble gemm -u blackwell-tcgen05-nvfp4 -q te-nvfp4 -g 64x64x512 --anatomy",
     "where the error of NVFP4 comes from"},
    {"nibble gemm -u hopper-wgmma-fp8-f32 --operand e4m3 --promote 4 -g 64x64x512 --error",
     "FP8 with promotion every 128"},
    {"nibble gemm -u ampere-mma-int8-k16-s32 -q e1m2-fp32 -g 64x64x512 --error", "E1M2 through an integer unit"},
    {"nibble gemm -u hopper-wgmma-16bit-f32 -q e1m2-fp32 --fake --operand bf16 -g 64x64x512 --error",
     "the same, emulated in BF16"},
    {NULL, NULL},
};

static enum nib_status read_c(const struct nib_gemm_arguments *a, struct nib_gemm *g, float **memory,
                              struct nib_error *error) {
    static const struct nib_texts none = {NULL, 0};
    struct nib_input input;
    if (a->beta == 0 && a->c == NULL) return NIB_OK;
    if (a->beta == 0 || a->c == NULL) return nib_fail(error, NIB_EINVAL, "--beta and --c go together");
    enum nib_status status = nib_input_open(a->c, &none, NULL, false, &input, error);
    if (status != NIB_OK) return status;
    struct nib_view c = input.view;
    if (c.rows != g->m || c.cols != g->n)
        status = nib_fail(error, NIB_EINVAL, "C is %zux%zu; expected %zux%zu", c.rows, c.cols, g->m, g->n);
    else if ((*memory = nib_alloc_raw(g->m * g->n, sizeof(float), "C", error)) == NULL)
        status = NIB_ENOMEM;
    for (size_t i = 0; status == NIB_OK && i < g->m * g->n; i++) (*memory)[i] = nib_view_value(c, i / g->n, i % g->n);
    nib_input_close(&input);
    g->c = *memory;
    g->c_stride = g->n;
    return status;
}

static enum nib_status assemble(const struct nib_gemm_arguments *a, const struct nib_unit *unit,
                                const struct nib_gemm_input in[2], struct nib_gemm *g, struct nib_error *error) {
    const struct nib_gemm_buffer *x = &in[0].buffer, *y = &in[1].buffer;
    if (x->k != y->k)
        return nib_fail(error, NIB_EINVAL, "A is %zux%zu and B %zux%zu (rows x K); expected one K", x->rows, x->k,
                        y->rows, y->k);
    if (x->block_scale_k != 0 && y->block_scale_k != 0 && x->block_scale_k != y->block_scale_k)
        return nib_fail(error, NIB_EINVAL, "A has one scale for %zu elements of K and B for %zu; expected the same",
                        x->block_scale_k, y->block_scale_k);
    float tensor_scales = x->tensor_scale_decode * y->tensor_scale_decode;
    *g = (struct nib_gemm){.unit = unit,
                           .m = x->rows,
                           .n = y->rows,
                           .k = x->k,
                           .a = x->operand,
                           .b = y->operand,
                           .block_scale_k = x->block_scale_k != 0 ? x->block_scale_k : y->block_scale_k,
                           .scaling = (enum nib_gemm_scaling)a->scaling,
                           .promote = (unsigned)a->promote,
                           .split_k = (unsigned)a->split_k,
                           .order = (enum nib_gemm_order)a->order,
                           .interleave = (unsigned)a->interleave,
                           .alpha = a->alpha * tensor_scales,
                           .beta = a->beta,
                           .output = (enum nib_gemm_output)a->output};
    return NIB_OK;
}

/* Exact products take about 10 ns a term: by default no more than a few seconds of them. */
static uint64_t samples(const struct nib_gemm_arguments *a, size_t k) {
    uint64_t fits = (UINT64_C(1) << 27) / (k > 0 ? k : 1);
    return a->samples > 0 ? (uint64_t)a->samples : fits > 0 ? fits : 1;
}

static enum nib_status multiply(struct nib_call *call, const struct nib_gemm_input in[2], const struct nib_gemm *g,
                                struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    struct nib_unit_options how = {.threads = (int)call->common.threads, .isa = a->isa};
    struct nib_gemm_error measured;
    struct nib_gemm_anatomy anatomy;
    void *d = nib_alloc_raw(g->m * g->n, nib_gemm_output_bytes(g), "the output", error);
    if (d == NULL) return NIB_ENOMEM;
    if (a->anatomy && (in[0].values.data == NULL || in[1].values.data == NULL)) {
        free(d);
        return nib_fail(error, NIB_EINVAL, "--anatomy needs the original values, not packed codes");
    }
    enum nib_status status = nib_gemm_run(g, &how, d, g->n, error);
    if (status == NIB_OK && a->error)
        status = nib_gemm_measure(g, d, g->n, samples(a, g->k), how.threads, &measured, error);
    if (status == NIB_OK && a->anatomy)
        status = nib_gemm_dissect(g, in[0].values, in[1].values, in[0].buffer.tensor_scale_decode * a->alpha,
                                  in[1].buffer.tensor_scale_decode, d, g->n, samples(a, 4 * g->k), how.threads,
                                  &anatomy, error);
    if (status == NIB_OK) {
        struct nib_gemm_result result = {.gemm = g,
                                         .d = d,
                                         .error = a->error ? &measured : NULL,
                                         .anatomy = a->anatomy ? &anatomy : NULL,
                                         .inexact = {in[0].buffer.inexact, in[1].buffer.inexact},
                                         .quantizer = {in[0].quantizer, in[1].quantizer}};
        if (call->common.output != NULL) status = nib_gemm_store(call, &result, error);
        if (status == NIB_OK && (call->common.output == NULL || call->common.json || call->common.tsv))
            status = nib_gemm_print(call, &result, error);
    }
    free(d);
    return status;
}

/* Options that would have no effect are refused. */
static enum nib_status check_applies(const struct nib_call *call, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    bool by_a = a->quantizer != NULL || a->quantizer_a != NULL, by_b = a->quantizer != NULL || a->quantizer_b != NULL;
    const struct {
        bool applies;
        const char *name, *why;
    } rules[] = {
        {a->quantizer_a == NULL || a->quantizer_b == NULL, "quantizer", "is of no use beside --quantizer-a and --quantizer-b"},
        {by_a || by_b, "set", "changes a quantizer; --quantizer is missing"},
        {a->fake || !by_a || !by_b, "operand", "does not go with quantizers, whose codes decide it, unless --fake is given"},
        {a->fake || !by_a, "operand-a", "does not go with a quantizer of A, whose codes decide it, unless --fake is given"},
        {a->fake || !by_b, "operand-b", "does not go with a quantizer of B, whose codes decide it, unless --fake is given"},
        {a->operand_a == NULL || a->operand_b == NULL, "operand", "is of no use beside --operand-a and --operand-b"},
        {a->codes, "scale-layout", "goes with --codes"},
        {a->codes || by_a, "tensor-scale-a", "goes with --codes or a quantizer of A"},
        {a->codes || by_b, "tensor-scale-b", "goes with --codes or a quantizer of B"},
        {a->gaussian == NULL, "b-layout", "goes with files"},
        {a->order == NIB_GEMM_INTERLEAVED, "interleave", "goes with --k-order interleaved"},
        {a->error || a->anatomy, "samples", "goes with --error or --anatomy"},
        {a->gaussian != NULL || by_a || by_b, "seed", "goes with --gaussian or a quantizer"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!rules[i].applies && nib_option_given(call, rules[i].name))
            return nib_fail(error, NIB_EINVAL, "--%s %s", rules[i].name, rules[i].why);
    return NIB_OK;
}

static enum nib_status check_arguments(const struct nib_call *call, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    if (a->unit == NULL) return nib_fail(error, NIB_EINVAL, "--unit is missing; 'nibble list units' names them");
    if (a->gaussian != NULL ? call->value_count != 0 : call->value_count != 2)
        return nib_fail(error, NIB_EINVAL, "expected two files A and B, or --gaussian MxNxK");
    if (a->codes && a->gaussian != NULL) return nib_fail(error, NIB_EINVAL, "--codes needs files");
    if (a->codes && a->b_layout == 1)
        return nib_fail(error, NIB_EINVAL, "packed codes of B are N x K; expected no --b-layout kn");
    if (a->codes && a->fake)
        return nib_fail(error, NIB_EINVAL, "--fake takes values, --codes packed codes; expected one");
    if (!a->codes && (a->scales_a != NULL || a->scales_b != NULL))
        return nib_fail(error, NIB_EINVAL, "--scales-a and --scales-b go with --codes");
    if (a->fake && a->quantizer == NULL && a->quantizer_a == NULL && a->quantizer_b == NULL)
        return nib_fail(error, NIB_EINVAL, "--fake needs a quantizer");
    enum nib_status status = check_applies(call, error);
    if (status != NIB_OK) return status;
    if (a->anatomy && a->alpha != 1)
        return nib_fail(error, NIB_EINVAL, "--anatomy compares with A B; expected --alpha 1");
    return NIB_OK;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    const struct nib_unit *unit = NULL;
    struct nib_gemm_input in[2] = {{.memory = NULL}, {.memory = NULL}};
    struct nib_gemm g;
    float *c = NULL;
    enum nib_status status = check_arguments(call, error);
    if (status == NIB_OK) status = nib_unit_open(a->unit, &unit, error);
    for (int i = 0; i < 2 && status == NIB_OK; i++)
        status = nib_gemm_input_open(call, unit, "ab"[i], call -> value_count == 2 ? call -> values[i] : NULL, &in[i],
                                     error);
    if (status == NIB_OK) status = assemble(a, unit, in, &g, error);
    if (status == NIB_OK && g.block_scale_k == 0 && nib_option_given(call, "scaling"))
        status =
            nib_fail(error, NIB_EINVAL, "--scaling is the form of block scales in the epilogue; here there are none");
    if (status == NIB_OK) status = read_c(a, &g, &c, error);
    if (status == NIB_OK) status = multiply(call, in, &g, error);
    free(c);
    for (int i = 0; i < 2; i++) nib_gemm_input_close(&in[i]);
    nib_unit_close(unit);
    return status;
}

NIB_COMMAND(gemm) = {
    .values = "[A B]",
    .least = 0,
    .most = 2,
    .description =
        "Multiplies A (M x K) by the transpose of B (N x K) with the arithmetic of one matrix instruction, bit for "
        "bit. "
        "Operands are values that a quantizer turns into codes and scales, values rounded into an operand format, or "
        "packed "
        "codes with their scales. Scales that the unit knows are applied inside the instruction; others in binary32 "
        "after "
        "each block of K; tensor scales in the epilogue: D = RN(alpha acc), or RN(FMA(beta, C, RN(alpha acc))).\n"
        "--error compares with the exact product, computed without rounding. --anatomy tells how much of the error "
        "comes from "
        "quantizing A, from quantizing B, and from the accumulation, in shares of the squared norm of the product.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct nib_gemm_arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
