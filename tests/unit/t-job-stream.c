/* Measuring part by part gives the bits of the whole. */
#include "job/stream.h"

#include "core/philox.h"
#include "measure/parts.h"
#include "nib_files.h"
#include <math.h>

static float *fill(size_t count, unsigned seed, bool nan) {
    float *x = malloc(count * sizeof *x);
    if (x == NULL) abort();
    for (size_t i = 0; i < count; i += 4) {
        struct nib_philox_block w = nib_philox(seed, i / 4, 0);
        for (size_t k = 0; k < 4 && i + k < count; k++)
            x[i + k] = ((float)w.word[k] * 0x1p-31f - 1) * (w.word[(k + 1) % 4] % 97 == 0 ? 40.0f : 1.0f);
    }
    if (nan) x[count / 2 + 1] = NAN;
    return x;
}

/* The whole at once, by the public functions. */
static void measure_whole(const struct nib_stream *s, const struct nib_quantizer *quantizer, struct nib_measurement *out) {
    struct nib_error error;
    struct nib_quantized q;
    struct nib_view x = s->x;
    float *rotated = malloc(x.rows * x.cols * sizeof *rotated);
    if (nib_rotation_size(s->rotation) > 1) {
        NIB_OK_OR_FAIL(nib_rotate(s->rotation, x, s->axis, 2, rotated, &error), error);
        x = (struct nib_view){rotated, NIB_F32, x.rows, x.cols, x.cols};
    }
    NIB_OK_OR_FAIL(nib_quantized_alloc(quantizer, x.rows, x.cols, s->axis, NIB_WANT_CODES | NIB_WANT_SCALES, &q, &error), error);
    struct nib_quantize_options options = {.axis = s->axis, .threads = 2, .seed = s->seed};
    NIB_OK_OR_FAIL(nib_quantize(quantizer, x, &options, &q, &error), error);
    NIB_OK_OR_FAIL(nib_measure(quantizer, x, &q, &s->options, out, &error), error);
    nib_quantized_free(&q);
    free(rotated);
}

static bool same_sums(const struct nib_sums *a, const struct nib_sums *b) { return memcmp(a, b, sizeof *a) == 0; }

enum { MOST = 5 };
static const char *const names[MOST] = {"e1m2-fp32", "te-nvfp4", "ocp-mxfp4", "te-nvfp4", "te-nvfp4"};
/* Choices that look at more than a block: random bits by position, a scale for every line. */
static const char *const settings[MOST] = {NULL, NULL, NULL, "rounding=sr", "tensor_scope=row"};

static void check(size_t rows, size_t cols, size_t stride, enum nib_axis axis, const char *rotation_name, bool nan) {
    struct nib_error error;
    float *x = fill(rows * stride, 7, nan);
    const size_t lines = axis == NIB_ALONG_COLS ? rows : cols;
    const size_t count_of = lines > 10000 ? MOST - 1 : MOST; /* a scale for every line is slow work */
    const struct nib_quantizer *quantizers[MOST];
    const struct nib_rotation *rotation;
    struct nib_streamed *part = calloc(count_of, sizeof *part);
    struct nib_measurement *whole = calloc(1, sizeof *whole);
    NIB_OK_OR_FAIL(nib_rotation_open(rotation_name, &rotation, &error), error);
    for (size_t i = 0; i < count_of; i++) {
        NIB_OK_OR_FAIL(nib_quantizer_open(names[i], &quantizers[i], &error), error);
        if (settings[i] == NULL) continue;
        const struct nib_quantizer *plain = quantizers[i];
        NIB_OK_OR_FAIL(nib_quantizer_with(plain, &settings[i], 1, &quantizers[i], &error), error);
        nib_quantizer_close(plain);
    }
    struct nib_stream stream = {.x = {x, NIB_F32, rows, cols, stride}, .axis = axis, .rotation = rotation,
                                .quantizer_count = 1, .options = {32, 16, 1}, .seed = 11};
    for (size_t i = 0; i < count_of; i++) {
        stream.quantizers = &quantizers[i];
        NIB_OK_OR_FAIL(nib_stream_measure(&stream, &part[i], &error), error);
        measure_whole(&stream, quantizers[i], whole);
        bool same = same_sums(&part[i].m.total, &whole->total) && part[i].m.batches == whole->batches &&
                    memcmp(part[i].m.scale_count, whole->scale_count, sizeof whole->scale_count) == 0;
        for (unsigned b = 0; b < whole->batches; b++) same &= same_sums(&part[i].m.batch[b], &whole->batch[b]);
        NIB_CHECKF(same, "%zux%zu along %d, %s, %s %s", rows, cols, (int)axis, rotation_name, names[i],
                   settings[i] == NULL ? "" : settings[i]);
    }
    /* All in one pass. */
    struct nib_streamed *together = calloc(count_of, sizeof *together);
    stream.quantizers = quantizers;
    stream.quantizer_count = count_of;
    NIB_OK_OR_FAIL(nib_stream_measure(&stream, together, &error), error);
    for (size_t i = 0; i < count_of; i++)
        NIB_CHECKF(same_sums(&part[i].m.total, &together[i].m.total), "%zux%zu: %s with others", rows, cols, names[i]);
    for (size_t i = 0; i < count_of; i++) nib_quantizer_close(quantizers[i]);
    nib_rotation_close(rotation);
    free(together);
    free(whole);
    free(part);
    free(x);
}

static void parts_of_tall_matrices(void) {
    check(1303, 2048, 2048, NIB_ALONG_COLS, "none", false);
    check(2608, 1031, 1040, NIB_ALONG_ROWS, "rht16", false);
}

static void parts_of_wide_matrices(void) {
    check(3, 800000, 800000, NIB_ALONG_COLS, "rht16", false);
    check(48, 50003, 50003, NIB_ALONG_ROWS, "none", false);
}

static void parts_of_vectors(void) {
    check(1, 2500000, 2500000, NIB_ALONG_COLS, "none", false);
    check(2500000, 1, 1, NIB_ALONG_ROWS, "none", false);
}

static void parts_with_a_nan(void) { check(1100, 2048, 2048, NIB_ALONG_COLS, "none", true); }

/* Every chunk once, every element once, and no part larger than asked for unless it is one chunk. */
static void parts_cover_the_matrix(void) {
    static const size_t shapes[][2] = {{1, 1}, {7, 5}, {5003, 1024}, {3, 1500000}, {1, 5000000}, {5000000, 1}, {100, 70000}};
    struct nib_error error;
    const struct nib_quantizer *quantizer;
    NIB_OK_OR_FAIL(nib_quantizer_open("e1m2-fp32", &quantizer, &error), error);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t elements = 10000; elements < 100000000; elements *= 100) {
            struct nib_parts *parts;
            struct nib_part *list;
            size_t count, next = 0, covered = 0;
            struct nib_measure_options options = {32, 1, 1};
            NIB_OK_OR_FAIL(nib_parts_new(quantizer, shapes[i][0], shapes[i][1], NIB_ALONG_COLS, &options, &parts, &error), error);
            NIB_OK_OR_FAIL(nib_parts_cut(parts, elements, &list, &count, &error), error);
            for (size_t k = 0; k < count; k++) {
                NIB_CHECKF(list[k].first == next && list[k].count > 0, "part %zu begins at chunk %zu", k, list[k].first);
                next = list[k].first + list[k].count;
                size_t size = list[k].place.rows * list[k].place.cols;
                NIB_CHECKF(size <= elements || list[k].count == 1, "part %zu has %zu elements, not %zu", k, size, elements);
                covered += size;
            }
            NIB_CHECKF(covered == shapes[i][0] * shapes[i][1], "%zux%zu: %zu elements in parts", shapes[i][0], shapes[i][1], covered);
            free(list);
            nib_parts_free(parts);
        }
    nib_quantizer_close(quantizer);
}

NIB_TEST_MAIN("measuring part by part", {"parts cover the matrix", parts_cover_the_matrix},
              {"parts of tall matrices", parts_of_tall_matrices}, {"parts of wide matrices", parts_of_wide_matrices},
              {"parts of vectors", parts_of_vectors}, {"parts with a NaN", parts_with_a_nan})
