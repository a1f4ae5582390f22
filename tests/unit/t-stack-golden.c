/* bytelm-8m in binary64 against what another implementation computed (data/README.md). */
#include "nib_test.h"

#include "io/model_config.h"
#include "io/tokens.h"
#include <jansson.h>
#include <math.h>
#include <nibble/stack.h>

#define MODEL NIB_DATA_DIR "/bytelm-8m.safetensors"
#define GOLDEN NIB_DATA_DIR "/bytelm-8m.golden.safetensors"

static struct nib_error error;
static struct nib_file *model_file, *golden;
static const struct nib_stack *stack;
static struct nib_stack_result result;

enum { SEQUENCES = 2, LENGTH = 128, HIDDEN = 256, LAYERS = 10 };

static void run(void) {
    struct nib_stack_config config;
    struct nib_tokens tokens;
    uint32_t *ids;
    char *path;
    NIB_OK_OR_FAIL(nib_model_config_find(MODEL, &path, &error), error);
    NIB_OK_OR_FAIL(nib_model_config_read(path, &config, &error), error);
    free(path);
    NIB_OK_OR_FAIL(nib_file_open(MODEL, &model_file, &error), error);
    NIB_OK_OR_FAIL(nib_file_open(GOLDEN, &golden, &error), error);
    NIB_OK_OR_FAIL(nib_stack_open(&config, model_file, &stack, &error), error);
    NIB_OK_OR_FAIL(nib_tokens_read(GOLDEN ":tokens", config.vocabulary, &tokens, &error), error);
    NIB_OK_OR_FAIL(nib_tokens_sequences(&tokens, SEQUENCES, LENGTH, &ids, &error), error);
    struct nib_stack_run options = {.precision = NIB_STACK_F64, .backward = true, .threads = 2};
    NIB_OK_OR_FAIL(nib_stack_execute(stack, &options, ids, SEQUENCES, LENGTH, &result, &error), error);
    nib_tokens_clear(&tokens);
    free(ids);
}

/* The golden tensors are binary64 results rounded to binary32, so that an element may be off by half an ulp of
 * binary32, and by a little more where rounding errors of binary64 lie across the middle of two numbers. */
struct difference {
    double norm;      /* ||a - b|| / ||b|| */
    double element;   /* largest |a - b| / |b| */
    double half_ulps; /* largest |a - b| in halves of the ulp at b */
};

static struct difference against(const double *values, const char *name, size_t count) {
    struct difference out = {HUGE_VAL, HUGE_VAL, HUGE_VAL};
    struct nib_view view;
    size_t at;
    if (nib_file_find(golden, name, &at, &error) != NIB_OK ||
        nib_file_view(golden, at, false, &view, &error) != NIB_OK) {
        NIB_CHECKF(false, "%s", error.text);
        return out;
    }
    NIB_CHECKF(view.rows * view.cols == count, "%s has %zu x %zu elements", name, view.rows, view.cols);
    const float *wanted = view.data;
    double off = 0, norm = 0;
    out = (struct difference){0};
    for (size_t i = 0; i < count; i++) {
        double b = (double)wanted[i], d = fabs(values[i] - b), half = ldexp(1, ilogb(b) - 24);
        off += d * d;
        norm += b * b;
        out.element = fmax(out.element, d / fabs(b));
        out.half_ulps = fmax(out.half_ulps, d / half);
    }
    out.norm = sqrt(off / norm);
    return out;
}

static void check(const double *values, const char *name, size_t count) {
    struct difference d = against(values, name, count);
    NIB_CHECKF(d.half_ulps < 1.01, "%s: an element is off by %g half ulps of binary32", name, d.half_ulps);
    NIB_CHECKF(d.element < 6.1e-8 && d.norm < 3e-8, "%s: elements off by %.3g, norm by %.3g", name, d.element, d.norm);
}

static void the_residual_stream_is_reproduced(void) {
    for (int i = 0; i <= LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "hidden.%d", i);
        check(result.hidden + (size_t)i * SEQUENCES * LENGTH * HIDDEN, name, LENGTH * HIDDEN);
    }
}

static void its_gradients_are_reproduced(void) {
    for (int i = 0; i <= LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "hidden_grad.%d", i);
        check(result.hidden_gradient + (size_t)i * SEQUENCES * LENGTH * HIDDEN, name, LENGTH * HIDDEN);
    }
}

static void logits_are_reproduced(void) {
    check(result.logits, "logits", 32 * 256);
}

static void loss_and_norms_are_reproduced(void) {
    json_error_t why;
    json_t *root = json_load_file(NIB_DATA_DIR "/bytelm-8m.golden.json", 0, &why);
    NIB_CHECKF(root != NULL, "%s", why.text);
    if (root == NULL) return;
    double loss = json_number_value(json_object_get(root, "golden_loss_float64"));
    const json_t *norms = json_object_get(root, "grad_norm_float64");
    CU_ASSERT_EQUAL(json_object_size(norms), nib_stack_weights(stack));
    for (size_t i = 0; i < nib_stack_weights(stack); i++) {
        size_t rows, cols;
        double sum = 0, wanted = json_number_value(json_object_get(norms, nib_stack_weight_name(stack, i)));
        nib_stack_weight_shape(stack, i, &rows, &cols);
        for (size_t j = 0; j < rows * cols; j++) sum += result.gradient[i][j] * result.gradient[i][j];
        double off = fabs(sqrt(sum) / wanted - 1);
        NIB_CHECKF(off < 1e-12, "%s: norm %.17g, expected %.17g", nib_stack_weight_name(stack, i), sqrt(sum), wanted);
    }
    NIB_CHECKF(fabs(result.loss / loss - 1) < 1e-14, "loss %.17g, expected %.17g", result.loss, loss);
    json_decref(root);
}

static void close_all(void) {
    nib_stack_result_clear(&result);
    nib_stack_close(stack);
    nib_file_close(model_file);
    nib_file_close(golden);
}

NIB_TEST_MAIN("stack: golden", {"bytelm-8m runs in binary64", run},
              {"the residual stream is reproduced", the_residual_stream_is_reproduced},
              {"its gradients are reproduced", its_gradients_are_reproduced},
              {"logits are reproduced", logits_are_reproduced},
              {"loss and gradient norms are reproduced", loss_and_norms_are_reproduced}, {"(closing)", close_all})
