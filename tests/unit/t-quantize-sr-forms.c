/* Forms and sources of stochastic rounding against what gfloat, TransformerEngine and torch gave, and distributions
 * against counting. */
#include "core/key.h"
#include "core/philox.h"
#include "format/quantizer.h"
#include "nib_test.h"
#include "quantize/isa.h"

#include <nibble/quantize.h>
#include <nibble/tensor.h>

static const struct nib_quantizer *rounding(const char *form, const char *bits) {
    const struct nib_quantizer *base, *q = NULL;
    struct nib_error error;
    char form_setting[64], bits_setting[32];
    snprintf(form_setting, sizeof form_setting, "sr_form=%s", form);
    snprintf(bits_setting, sizeof bits_setting, "sr_bits=%s", bits != NULL ? bits : "");
    const char *settings[] = {"rounding=sr", form_setting, bits_setting};
    if (nib_quantizer_open("e2m1-fp32", &base, &error) != NIB_OK) return NULL;
    enum nib_status status = nib_quantizer_with(base, settings, bits != NULL ? 3 : 2, &q, &error);
    NIB_CHECKF(status == NIB_OK, "%s: %s", form, error.text);
    nib_quantizer_close(base);
    return q;
}

static const char *tree(void) {
    const char *given = getenv("NIBBLE_GOLDEN_DIR");
    return given != NULL ? given : NIB_DATA_DIR "/golden";
}
static struct nib_file *open_file(const char *name) {
    char path[600];
    struct nib_error error;
    struct nib_file *file = NULL;
    snprintf(path, sizeof path, "%s/%s", tree(), name);
    enum nib_status status = nib_file_open(path, &file, &error);
    NIB_CHECKF(status == NIB_OK, "%s: %s", path, error.text);
    CU_ASSERT_FATAL(status == NIB_OK);
    return file;
}
static const void *bytes_of(struct nib_file *file, const char *name, uint64_t *bytes) {
    size_t index;
    struct nib_error error;
    const void *data = NULL;
    bool found = nib_file_find(file, name, &index, &error) == NIB_OK && nib_file_bytes(file, index, &data, bytes, &error) == NIB_OK;
    NIB_CHECKF(found, "%s: %s", name, error.text);
    CU_ASSERT_FATAL(found);
    return data;
}

static void gfloat_is_reproduced(void) {
    static const struct {
        const char *form, *gfloat;
    } forms[] = {{"carry", "StochasticFastest"}, {"half", "StochasticFast"}, {"nearest", "Stochastic"}, {"odd", "StochasticOdd"}};
    struct nib_file *golden = open_file("elem_gfloat/elem_f32.safetensors"), *input = open_file("inputs/elem_f32.safetensors");
    uint64_t bytes, count;
    const float *x = bytes_of(input, "x", &bytes);
    size_t which;
    struct nib_error error;
    struct nib_tensor_info info;
    NIB_OK_OR_FAIL(nib_file_find(golden, "finite_index", &which, &error), error);
    nib_file_tensor(golden, which, &info);
    const uint8_t *index = bytes_of(golden, "finite_index", &count);
    size_t width = strcmp(info.dtype, "I64") == 0 ? 8 : 4;
    for (size_t f = 0; f < 4; f++)
        for (int n = 8; n <= 16; n += 8) {
            char name[64], bits[8];
            snprintf(name, sizeof name, "e2m1_%s_%d", forms[f].gfloat, n);
            snprintf(bits, sizeof bits, "%d", n);
            const uint8_t *codes = bytes_of(golden, name, &bytes);
            snprintf(name, sizeof name, "srbits%d", n);
            uint64_t random_bytes, wrong = 0;
            const uint8_t *random = bytes_of(golden, name, &random_bytes);
            size_t random_width = (size_t)(random_bytes / (count / width));
            const struct nib_quantizer *q = rounding(forms[f].form, bits);
            for (size_t i = 0; i < bytes; i++) {
                uint32_t at, r = 0;
                memcpy(&at, index + i * width, 4);
                for (size_t b = 0; b < random_width && b < 4; b++) r |= (uint32_t)random[i * random_width + b] << 8 * b;
                wrong += nib_sr_code_by_form(q, x[at], r) != codes[i];
            }
            NIB_CHECKF(bytes > 1000 && wrong == 0, "%s, %d bits: %llu of %llu differ", forms[f].gfloat, n, (unsigned long long)wrong,
                       (unsigned long long)bytes);
            nib_quantizer_close(q);
        }
    nib_file_close(golden);
    nib_file_close(input);
}

static void transformer_engine_is_reproduced(void) {
    struct nib_file *golden = open_file("te_sr_element/elem_f32.safetensors"), *input = open_file("inputs/elem_f32.safetensors");
    uint64_t bytes, count, wrong = 0;
    const float *x = bytes_of(input, "x", &bytes);
    const uint8_t *codes = bytes_of(golden, "codes", &count), *random = bytes_of(golden, "rbits", &bytes);
    const struct nib_quantizer *q = rounding("te", NULL);
    for (size_t i = 0; i < count; i++)
        if (x[i] == x[i]) wrong += nib_sr_code_by_form(q, x[i], random[i]) != codes[i];
    NIB_CHECKF(count > 1000 && wrong == 0, "%llu of %llu differ", (unsigned long long)wrong, (unsigned long long)count);
    nib_quantizer_close(q);
    nib_file_close(golden);
    nib_file_close(input);
}

/* What counting finds, for every integer of 8 and 16 bits, and a sample of 32. */
static void distributions_are_those_of_counting(void) {
    static const char *const forms[] = {"carry", "half", "nearest", "odd", "te", "rint", "compare", "compare-next", "dither",
                                        "floor-add", "mslk"};
    static const float x[] = {0, 0.1f, 0.25f, 0.6f, 0.75f, 1, 1.3f, 1.999f, 2.2509765625f, 3.5f, 4.000001f, 5.5f, 6, 9, -0.1f, -2.7f, -0.0f};
    for (size_t f = 0; f < 11; f++) {
        const struct nib_quantizer *q = rounding(forms[f], f < 4 ? (f % 2 ? "16" : "8") : NULL);
        unsigned long long wrong = 0;
        for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
            uint64_t count[NIB_CODES], mine[NIB_CODES] = {0}, sum = 0, total = nib_sr_distribution(q, x[i], count);
            bool all = total <= 1 << 16;
            uint64_t draws = all ? total : 1 << 12;
            for (uint64_t r = 0; r < draws; r++) mine[nib_sr_code_by_form(q, x[i], all ? (uint32_t)r : nib_philox(1, r, i).word[0])]++;
            for (int c = 0; c < NIB_CODES; c++) {
                sum += count[c];
                double share = (double)count[c] / (double)total, found = (double)mine[c] / (double)draws;
                wrong += all ? mine[c] != count[c] : share - found > 0.05 || found - share > 0.05; /* 6 sigma */
            }
            wrong += sum != total;
        }
        NIB_CHECKF(wrong == 0, "%s: %llu wrong counts", forms[f], wrong);
        nib_quantizer_close(q);
    }
}

/* Catalogue, row SRc: MSLK never leaves 0.5 for 0.6; row SRa: x = 2^-9 - 2^-33 with r = FF goes to 0.5 in
 * TransformerEngine's form and stays 0 where the carry is exact. */
static void catalogued_differences_hold(void) {
    const struct nib_quantizer *carry = rounding("carry", "8"), *te = rounding("te", NULL), *mslk = rounding("mslk", NULL);
    uint64_t count[NIB_CODES];
    float x = 0x1p-9f - 0x1p-33f;
    CU_ASSERT(nib_sr_code_by_form(carry, x, 0xFF) == 0 && nib_sr_code_by_form(te, x, 0xFF) == 1);
    CU_ASSERT(nib_sr_distribution(mslk, 0.6f, count) == count[1]);
    nib_quantizer_close(carry);
    nib_quantizer_close(te);
    nib_quantizer_close(mslk);
}

/* microxcaling's dither by hand. r = 0 gives u = 2^-33, all ones u = 1, which becomes 0; log2 of the number below 8
 * rounds to 3, so that number counts in steps of 4; in bfloat16 1 - 2^-8 + u rounds to 1 for u = 2^-9 already. */
static void floor_add_rounds_its_sum(void) {
    static const float below_8 = 0x1.fffffep+2f, below_8_bf16 = 0x1.fep+2f;
    const struct nib_quantizer *q = rounding("floor-add", NULL);
    CU_ASSERT(nib_sr_code_by_form(q, below_8, 0) == 6 && nib_sr_code_by_form(q, 0x1.fffffcp+2f, 0) == 7);
    CU_ASSERT(nib_sr_code_by_form(q, -below_8, 0x80000000u) == 15 && nib_sr_code_by_form(q, 8, 0) == 7);
    CU_ASSERT(nib_sr_floor_add(q->block->element, below_8_bf16, 0, true) == 6);
    CU_ASSERT(nib_sr_floor_add(q->block->element, below_8_bf16, 0, false) == 7);
    CU_ASSERT(nib_sr_floor_add(q->block->element, 0x1.fep-2f, 0x800000u, true) == 1);
    CU_ASSERT(nib_sr_floor_add(q->block->element, 0x1.fep-2f, 0x800000u, false) == 0);
    CU_ASSERT(nib_sr_code_by_form(q, 0.25f, UINT32_MAX) == 0 && nib_sr_code_by_form(q, 0.25f, 0xFFFFFF00u) == 1);
    CU_ASSERT(nib_sr_floor_add(q->block->element, 0.25f, 0xFFBFFF00u, true) == 0);
    nib_quantizer_close(q);
}

/* Row SRb: rbits = 11FF2233, all 1.9: the second element gets 2.0 from FF by PTX and 1.5 from 22 in software; the
 * third the other way round. */
static void the_operand_of_cvt_rs_swaps_the_middle_bytes(void) {
    struct nib_sr_source plain = {.bytes = 1, .kind = NIB_SR_SOURCE_ELEMENT, .seed = 5, .stream = 6, .cols = 64}, ptx = plain;
    uint8_t a[64], b[64];
    ptx.kind = NIB_SR_SOURCE_CVT_RS;
    const struct nib_isa *isa;
    bool reference;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_isa_choose("generic", &isa, &reference, &error), error);
    nib_sr_bytes(&plain, &isa->random, 0, 64, a);
    nib_sr_bytes(&ptx, &isa->random, 0, 64, b);
    for (int i = 0; i < 64; i += 4) CU_ASSERT(a[i] == b[i] && a[i + 1] == b[i + 2] && a[i + 2] == b[i + 1] && a[i + 3] == b[i + 3]);
}

/* The words that tl.rand and torch.rand take, one Philox block an element, from any place on. */
static void words_come_from_blocks_of_their_own(void) {
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    enum { COUNT = 77 };
    uint8_t bytes[4 * COUNT];
    for (int i = 0; i < 3; i++) {
        const struct nib_isa *isa;
        bool reference;
        if (nib_isa_choose(isas[i], &isa, &reference, NULL) != NIB_OK) continue;
        for (int torch = 0; torch < 2; torch++)
            for (unsigned width = 1; width <= 4; width *= 2) {
                const uint64_t seed = 0x123456789ABCDEF0, stream = 0xFEDCBA9876543210, first = 0xFFFFFFF9;
                struct nib_sr_source source = {.bytes = width, .seed = seed, .stream = stream, .first = first, .cols = 64};
                source.kind = torch ? NIB_SR_SOURCE_TORCH : NIB_SR_SOURCE_TRITON;
                nib_sr_bytes(&source, &isa->random, 3, COUNT, bytes);
                int wrong = 0;
                for (uint64_t e = 0; e < COUNT; e++) {
                    uint64_t at = first + 3 + e;
                    uint32_t word = torch ? nib_philox(seed, stream, at).word[0] : nib_philox(seed, at, 0).word[0];
                    if (width < 4) word &= (1u << 8 * width) - 1;
                    wrong += nib_sr_word(bytes, (size_t)e, width) != word;
                }
                NIB_CHECKF(wrong == 0, "%s, %s, %u bytes: %d wrong", isas[i], torch ? "torch" : "triton", width, wrong);
            }
    }
}

/* Public cases stochastic-02, -04 and -06: independent streams, means, neighbours only. */
static void reported_cases_hold(void) {
    enum { COPIES = 4096 };
    static float x[COPIES];
    static uint8_t codes[16][COPIES];
    const struct nib_quantizer *q = rounding("carry", "8");
    struct nib_error error;
    for (size_t i = 0; i < COPIES; i++) x[i] = i % 16 == 15 ? 6 : 2.5f; /* the scale is 1 */
    for (uint64_t stream = 0; stream < 16; stream++) {
        struct nib_quantized out;
        NIB_OK_OR_FAIL(nib_quantized_alloc(q, 1, COPIES, NIB_ALONG_COLS, NIB_WANT_CODES, &out, &error), error);
        struct nib_quantize_options options = {.seed = 7, .stream = stream};
        NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){x, NIB_F32, 1, COPIES, COPIES}, &options, &out, &error), error);
        memcpy(codes[stream], out.codes, COPIES);
        nib_quantized_free(&out);
    }
    const double drawn = COPIES / 16 * 15;
    for (int s = 0; s < 16; s++) {
        double sum = 0;
        bool neighbours = true;
        for (size_t i = 0; i < COPIES; i++) {
            if (i % 16 == 15) continue;
            sum += codes[s][i] == 5 ? 3 : 2;
            neighbours = neighbours && (codes[s][i] == 4 || codes[s][i] == 5);
        }
        CU_ASSERT(neighbours);
        NIB_CHECKF(sum / drawn > 2.46875 && sum / drawn < 2.53125, "stream %d: mean %g", s, sum / drawn);
        for (int t = 0; t < s; t++) {
            double same = 0;
            for (size_t i = 0; i < COPIES; i++) same += i % 16 != 15 && codes[s][i] == codes[t][i];
            NIB_CHECKF(same / drawn > 0.46 && same / drawn < 0.54, "streams %d and %d agree in %g", s, t, same / drawn);
        }
    }
    nib_quantizer_close(q);
}

/* MS-EDEN: the same bytes along rows of the transpose, for every thread count and instruction set; on average over
 * seeds <Q(x), x> = ||x||^2; groups of 128 only. */
static void eden_corrects_groups_of_128(void) {
    enum { ROWS = 5, COLS = 1280, COUNT = ROWS * COLS };
    static float x[COUNT], turned[COUNT];
    const struct nib_quantizer *q;
    struct nib_error error;
    struct nib_quantized a, b;
    unsigned want = NIB_WANT_CODES | NIB_WANT_SCALES | NIB_WANT_VALUES;
    for (size_t i = 0; i < COUNT; i++) {
        struct nib_philox_block r = nib_philox(4, i, 0);
        x[i] = (float)(int32_t)r.word[0] * 0x1p-31f * (float)(1 + r.word[1] % 7);
        turned[i % COLS * ROWS + i / COLS] = x[i];
    }
    NIB_OK_OR_FAIL(nib_quantizer_open("quartet2-nvfp4-eden", &q, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, ROWS, COLS, NIB_ALONG_COLS, want, &a, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, COLS, ROWS, NIB_ALONG_ROWS, want, &b, &error), error);
    struct nib_view plain = {x, NIB_F32, ROWS, COLS, COLS}, transposed = {turned, NIB_F32, COLS, ROWS, ROWS};
    struct nib_quantize_options one = {.seed = 9, .threads = 1, .isa = "ref"}, other = {.seed = 9, .threads = 3, .axis = NIB_ALONG_ROWS};
    NIB_OK_OR_FAIL(nib_quantize(q, plain, &one, &a, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, transposed, &other, &b, &error), error);
    CU_ASSERT(memcmp(a.scales, b.scales, a.scale_rows * a.scale_cols) == 0);
    size_t differing = 0;
    for (size_t i = 0; i < COUNT; i++) differing += a.values[i] != b.values[i % COLS * ROWS + i / COLS];
    CU_ASSERT(differing == 0);
    /* a part of the tensor draws what the whole does */
    struct nib_quantized part;
    struct nib_quantize_options of_whole = {.seed = 9, .has_tensor_amax = true, .tensor_amax = a.tensor_amax, .first = 2 * COLS,
        .tensor_cols = COLS};
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, 2, COLS, NIB_ALONG_COLS, want, &part, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){x + 2 * COLS, NIB_F32, 2, COLS, COLS}, &of_whole, &part, &error), error);
    CU_ASSERT(memcmp(part.scales, a.scales + 2 * a.scale_cols, 2 * a.scale_cols) == 0);
    CU_ASSERT(memcmp(part.values, a.values + 2 * COLS, 2 * COLS * sizeof(float)) == 0);
    nib_quantized_free(&part);
    double gain = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        double inner = 0, square = 0;
        struct nib_quantize_options options = {.seed = seed, .threads = 1};
        NIB_OK_OR_FAIL(nib_quantize(q, plain, &options, &a, &error), error);
        for (size_t i = 0; i < COUNT; i++) {
            inner += (double)a.values[i] * (double)x[i];
            square += (double)x[i] * (double)x[i];
        }
        gain += inner / square / 200;
    }
    NIB_CHECKF(gain > 0.9995 && gain < 1.0005, "mean gain %.6f", gain);
    nib_quantized_free(&b);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, ROWS, 144, NIB_ALONG_COLS, want, &b, &error), error);
    CU_ASSERT(nib_quantize(q, (struct nib_view){x, NIB_F32, ROWS, 144, COLS}, &one, &b, &error) == NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "pad them to 256") != NULL, "%s", error.text);
    nib_quantized_free(&a);
    nib_quantized_free(&b);
    nib_quantizer_close(q);
}

NIB_TEST_MAIN("forms of stochastic rounding", {"gfloat is reproduced", gfloat_is_reproduced},
              {"TransformerEngine is reproduced", transformer_engine_is_reproduced},
              {"distributions are those of counting", distributions_are_those_of_counting},
              {"catalogued differences hold", catalogued_differences_hold},
              {"floor-add rounds its sum", floor_add_rounds_its_sum},
              {"the operand of cvt.rs swaps the middle bytes", the_operand_of_cvt_rs_swaps_the_middle_bytes},
              {"words come from blocks of their own", words_come_from_blocks_of_their_own},
              {"MS-EDEN corrects groups of 128", eden_corrects_groups_of_128},
              {"reported cases hold", reported_cases_hold})
