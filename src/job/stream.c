/* Two passes where a quantizer has a tensor scale: one for the largest magnitude of the (rotated) tensor, one for the
 * rest. Both go through the same parts, each of which is rotated anew: that is cheaper than keeping it. */
#include "job/stream.h"

#include "base/memory.h"
#include "format/quantizer.h"
#include "measure/parts.h"
#include "quantize/tensor_scale.h"
#include <math.h>
#include <stdlib.h>

/* Elements of a part: large enough for all threads, small enough for the cache of the machine. */
enum { PART = 1 << 21 };

/* A part in memory: in the file's pages, or rotated. */
struct piece {
    struct nib_view x;
    float *rotated;
};

struct state {
    const struct nib_stream *stream;
    struct nib_part *parts;
    size_t count;
    float *amax; /* by quantizer */
    struct nib_parts **measuring;
};

static bool has_tensor_amax(const struct nib_quantizer *q) {
    return q->block->has_tensor_scale && !nib_tensor_scoped(q);
}

static bool has_line_amax(const struct nib_quantizer *q) {
    return nib_tensor_scoped(q);
}

static size_t item_size(struct nib_view x) { return x.dtype == NIB_F32 ? 4 : 2; }

static enum nib_status piece_open(const struct nib_stream *s, const struct nib_part *part, struct piece *out,
                                  struct nib_error *error) {
    const struct nib_rectangle *place = &part->place;
    struct piece piece = {.x = s->x};
    piece.x.data = (const char *)s->x.data + (place->row * s->x.stride + place->col) * item_size(s->x);
    piece.x.rows = place->rows;
    piece.x.cols = place->cols;
    enum nib_status status = NIB_OK;
    if (nib_rotation_size(s->rotation) > 1) {
        piece.rotated = nib_alloc_raw(place->rows * place->cols, sizeof *piece.rotated, "a rotated part", error);
        if (piece.rotated == NULL) return NIB_ENOMEM;
        status = nib_rotate(s->rotation, piece.x, s->axis, s->options.threads, piece.rotated, error);
        piece.x = (struct nib_view){piece.rotated, NIB_F32, place->rows, place->cols, place->cols};
    }
    if (status == NIB_OK)
        *out = piece;
    else
        free(piece.rotated);
    return status;
}

static void piece_close(const struct nib_stream *s, const struct nib_part *part, struct piece *piece) {
    free(piece->rotated);
    if (s->file == NULL || part->place.rows == 0) return;
    /* Whole rows: of those that the part has in part only, the rest is not in memory anyway. */
    const char *first = (const char *)s->x.data + part->place.row * s->x.stride * item_size(s->x);
    nib_file_release(s->file, first, ((part->place.rows - 1) * s->x.stride + s->x.cols) * item_size(s->x));
}

/* Largest magnitudes; *finite is false where one is NaN, which a caller cannot hand to nib_quantize. */
static enum nib_status find_amax(struct state *state, bool *finite, struct nib_error *error) {
    const struct nib_stream *s = state->stream;
    enum nib_status status = NIB_OK;
    bool needed = false;
    *finite = true;
    for (size_t q = 0; q < s->quantizer_count; q++) needed |= has_tensor_amax(s->quantizers[q]);
    for (size_t i = 0; needed && status == NIB_OK && i < state->count; i++) {
        struct piece piece;
        status = piece_open(s, &state->parts[i], &piece, error);
        if (status != NIB_OK) break;
        for (size_t q = 0; status == NIB_OK && q < s->quantizer_count; q++) {
            float amax = 0;
            if (!has_tensor_amax(s->quantizers[q])) continue;
            status = nib_tensor_amax(s->quantizers[q], piece.x, s->options.threads, &amax, error);
            if (isnan(amax)) *finite = false;
            if (amax > state->amax[q]) state->amax[q] = amax;
        }
        piece_close(s, &state->parts[i], &piece);
    }
    return status;
}

static enum nib_status measure_piece(struct state *state, const struct nib_part *part, const struct piece *piece,
                                     size_t i, struct nib_error *error) {
    const struct nib_stream *s = state->stream;
    const struct nib_quantizer *q = s->quantizers[i];
    struct nib_quantized quantized;
    struct nib_quantize_options options = {.axis = s->axis,
                                           .threads = s->options.threads,
                                           .seed = s->seed,
                                           .first = (uint64_t)part->place.row * s->x.cols + part->place.col,
                                           .tensor_cols = s->x.cols};
    if (state->count > 1 && has_tensor_amax(q)) {
        options.has_tensor_amax = true;
        options.tensor_amax = state->amax[i];
    }
    enum nib_status status = nib_quantized_alloc(q, part->place.rows, part->place.cols, s->axis,
                                                 NIB_WANT_CODES | NIB_WANT_SCALES, &quantized, error);
    if (status != NIB_OK) return status;
    status = nib_quantize(q, piece->x, &options, &quantized, error);
    if (status == NIB_OK) status = nib_parts_add(state->measuring[i], part, piece->x, &quantized, error);
    if (status == NIB_OK && !(quantized.tensor_amax <= state->amax[i])) state->amax[i] = quantized.tensor_amax;
    nib_quantized_free(&quantized);
    if (status == NIB_OK && s->progress != NULL) s->progress(s->context, part->place.rows * part->place.cols);
    return status;
}

static enum nib_status measure_parts(struct state *state, struct nib_error *error) {
    const struct nib_stream *s = state->stream;
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < state->count; i++) {
        struct piece piece;
        status = piece_open(s, &state->parts[i], &piece, error);
        if (status != NIB_OK) break;
        for (size_t q = 0; status == NIB_OK && q < s->quantizer_count; q++)
            status = measure_piece(state, &state->parts[i], &piece, q, error);
        piece_close(s, &state->parts[i], &piece);
    }
    return status;
}

/* Lines with a scale of their own must stay whole. */
static bool cuts_lines(const struct state *state) {
    const struct nib_stream *s = state->stream;
    bool by_line = false, cut = s->axis != NIB_ALONG_COLS;
    for (size_t q = 0; q < s->quantizer_count; q++) by_line |= has_line_amax(s->quantizers[q]);
    for (size_t i = 0; i < state->count; i++) cut |= state->parts[i].place.cols != s->x.cols;
    return by_line && cut;
}

static enum nib_status cut(struct state *state, size_t elements, struct nib_error *error) {
    free(state->parts);
    state->parts = NULL;
    return nib_parts_cut(state->measuring[0], elements, &state->parts, &state->count, error);
}

enum nib_status nib_stream_measure(const struct nib_stream *s, struct nib_streamed *out, struct nib_error *error) {
    struct state state = {.stream = s};
    state.amax = nib_alloc(s->quantizer_count, sizeof *state.amax, "measurements", error);
    state.measuring = nib_alloc(s->quantizer_count, sizeof *state.measuring, "measurements", error);
    enum nib_status status = state.amax == NULL || state.measuring == NULL ? NIB_ENOMEM : NIB_OK;
    for (size_t q = 0; status == NIB_OK && q < s->quantizer_count; q++)
        status =
            nib_parts_new(s->quantizers[q], s->x.rows, s->x.cols, s->axis, &s->options, &state.measuring[q], error);
    if (status == NIB_OK) status = cut(&state, PART, error);
    bool finite = true;
    if (status == NIB_OK && state.count > 1 && !cuts_lines(&state)) status = find_amax(&state, &finite, error);
    if (status == NIB_OK && state.count > 1 && (!finite || cuts_lines(&state))) status = cut(&state, SIZE_MAX, error);
    if (status == NIB_OK) status = measure_parts(&state, error);
    for (size_t q = 0; status == NIB_OK && q < s->quantizer_count; q++) {
        nib_parts_finish(state.measuring[q], &out[q].m);
        out[q].tensor_amax = state.amax[q];
    }
    for (size_t q = 0; state.measuring != NULL && q < s->quantizer_count; q++) nib_parts_free(state.measuring[q]);
    free(state.measuring);
    free(state.amax);
    free(state.parts);
    return status;
}
