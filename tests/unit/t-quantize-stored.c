/* Codes and scales give the values back, bit for bit, but for special numbers of those quantizers whose note says so. */
#include "format/registry.h"
#include "nib_test.h"

#include <math.h>
#include <nibble/quantize.h>

enum { COUNT = 128 };

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Rows that begin with special numbers and go on with `rest`. */
static const struct {
    const char *what;
    float first[3], rest;
} inputs[] = {
    {"NaN", {NAN, 2, 1}, 1},          {"infinity", {INFINITY, 2, 1}, 1}, {"minus infinity", {-INFINITY, 2, 1}, 1},
    {"large", {3.2e38f, -3e38f, 1}, 1}, {"zeros", {0, 0, 0}, 0},           {"minus zeros", {-0.0f, -0.0f, -0.0f}, -0.0f},
    {"all NaN", {NAN, NAN, NAN}, NAN}, {"NaN and zeros", {NAN, -0.0f, 0}, 0}, {"all", {NAN, INFINITY, -INFINITY}, 0},
    {"small", {1e-44f, -1e-44f, 0}, 0}, {"numbers", {6, -0.7f, 0.3f}, 1.2f},
};
enum { INPUTS = sizeof inputs / sizeof *inputs };

/* How many values differ; a NaN is a NaN. The second half of the row is ordinary. */
static unsigned differing(const struct nib_quantizer *q, size_t which, bool all_of_it) {
    struct nib_error error;
    struct nib_quantized out;
    float x[COUNT], again[COUNT];
    unsigned count = 0;
    for (size_t i = 0; i < COUNT; i++)
        x[i] = i < 3 ? inputs[which].first[i] : i < COUNT / 2 || all_of_it ? inputs[which].rest : 0.5f;
    enum nib_status status = nib_quantized_alloc(q, 1, COUNT, NIB_ALONG_COLS,
                                                 NIB_WANT_CODES | NIB_WANT_SCALES | NIB_WANT_VALUES, &out, &error);
    if (status == NIB_OK) {
        status = nib_quantize(q, (struct nib_view){x, NIB_F32, 1, COUNT, COUNT}, NULL, &out, &error);
        if (status == NIB_OK) status = nib_dequantize(q, &out, again, &error);
        for (size_t i = 0; status == NIB_OK && i < COUNT; i++)
            count += bits_of(out.values[i]) != bits_of(again[i]) && !(isnan(out.values[i]) && isnan(again[i]));
        nib_quantized_free(&out);
    }
    NIB_CHECKF(status == NIB_OK, "%s: %s", inputs[which].what, status == NIB_OK ? "" : error.text);
    return count;
}

static void a_note_says_where_bytes_hold_less_than_values(void) {
    struct nib_error error;
    const char *name;
    for (size_t n = 0; (name = nib_registry_name("quantizers", n)) != NULL; n++) {
        const struct nib_quantizer *q;
        struct nib_quantizer_info info;
        char where[400] = "";
        NIB_OK_OR_FAIL(nib_quantizer_open(name, &q, &error), error);
        nib_quantizer_describe(q, &info);
        for (size_t i = 0; i < INPUTS; i++) {
            bool differs = differing(q, i, false) + differing(q, i, true) > 0;
            size_t used = strlen(where);
            if (differs) snprintf(where + used, sizeof where - used, "%s%s", used > 0 ? ", " : "", inputs[i].what);
            NIB_CHECKF(!differs || strcmp(inputs[i].what, "numbers") != 0, "%s: ordinary numbers", name);
        }
        NIB_CHECKF((where[0] != '\0') == (info.note[0] != '\0'), "%s: differs on \"%s\", its note is \"%s\"", name, where, info.note);
        nib_quantizer_close(q);
    }
}

NIB_TEST_MAIN("stored bytes", {"a note says where bytes hold less than values", a_note_says_where_bytes_hold_less_than_values})
