/* The bias report on real tensors: what rotation does to both grids, and that nothing but the data decides it. */
#include "job/bias.h"
#include "nib_test.h"
#include <fenv.h>
#include <math.h>
#include <unistd.h>

#define ACTIVATIONS NIB_DATA_DIR "/bytelm-28m.activations.safetensors"
#define GRADIENTS NIB_DATA_DIR "/bytelm-28m.gradients.safetensors"
#define MODEL NIB_DATA_DIR "/bytelm-8m.safetensors"

static const struct nib_quantizer *quantizers[4];
static const struct nib_rotation *rotations[2];

static struct nib_bias_request request_for(const char *const *files, size_t count) {
    static const char *const names[] = {"e2m1-fp32", "e1m2-fp32", "te-nvfp4", "ocp-mxfp4"};
    for (size_t i = 0; i < 4; i++)
        if (quantizers[i] == NULL && nib_quantizer_open(names[i], &quantizers[i], NULL) != NIB_OK) abort();
    if (rotations[0] == NULL && nib_rotation_open("none", &rotations[0], NULL) != NIB_OK) abort();
    if (rotations[1] == NULL && nib_rotation_open("rht16", &rotations[1], NULL) != NIB_OK) abort();
    return (struct nib_bias_request){.files = files, .file_count = count, .quantizers = quantizers, .quantizer_count = 4,
                                     .rotations = rotations, .rotation_count = 2, .axis = NIB_AXIS_BY_ROLE,
                                     .gemm = NIB_GEMM_NONE, .operand = NIB_OPERAND_NONE};
}

/* The gated activations of layer 15: between 1 and 2.5 dB lost by E2M1, between 3.5 and 5.5 dB gained by E1M2,
 * both far outside their standard errors. */
static void rotation_costs_e2m1_what_it_gives_e1m2(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    static const char *const files[] = {ACTIVATIONS ":layers.15.mlp.down_proj.input"};
    struct nib_bias_request request = request_for(files, 1);
    request.gemm = NIB_GEMM_FPROP;
    struct nib_bias_result *result = NULL;
    NIB_OK_OR_FAIL(nib_bias_run(&request, &result, &error), error);
    CU_ASSERT(nib_bias_views(result) == 1 && nib_bias_view_at(result, 0)->rows == 256);
    struct nib_estimate e2m1 = nib_bias_entry_at(result, 0, 1, 0)->by_rotation[NIB_STATISTIC_sqnr_db];
    struct nib_estimate e1m2 = nib_bias_entry_at(result, 0, 1, 1)->by_rotation[NIB_STATISTIC_sqnr_db];
    NIB_CHECKF(e2m1.value < -1 && e2m1.value > -2.5, "E2M1 %+.3f +- %.3f dB", e2m1.value, e2m1.error);
    NIB_CHECKF(e1m2.value > 3.5 && e1m2.value < 5.5, "E1M2 %+.3f +- %.3f dB", e1m2.value, e1m2.error);
    NIB_CHECKF(e2m1.error > 0 && e2m1.error < 0.2 && e1m2.error > 0 && e1m2.error < 0.2, "+- %g, +- %g", e2m1.error,
               e1m2.error);
    char headline[1024];
    nib_bias_headline(result, headline, sizeof headline);
    NIB_CHECKF(strstr(headline, "e2m1-fp32 loses 1.") != NULL && strstr(headline, "e1m2-fp32 gains 4.") != NULL, "%s",
               headline);
    nib_bias_result_free(result);
}

/* All that a result holds, as bytes. */
static void digest(const struct nib_bias_request *request, unsigned char **bytes, size_t *size) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_bias_result *result = NULL;
    *bytes = NULL;
    *size = 0;
    NIB_OK_OR_FAIL(nib_bias_run(request, &result, &error), error);
    size_t each = sizeof(struct nib_bias_entry), count = nib_bias_views(result) * 8;
    *bytes = malloc(count * each);
    *size = count * each;
    for (size_t i = 0; i < count; i++)
        memcpy(*bytes + i * each, nib_bias_entry_at(result, i / 8, i / 4 % 2, i % 4), each);
    nib_bias_result_free(result);
}

static void threads_and_instruction_sets_change_no_byte(void) {
    static const char *const files[] = {ACTIVATIONS, GRADIENTS ":layers.5.*"};
    struct nib_bias_request request = request_for(files, 2);
    unsigned char *first, *bytes;
    size_t size, length;
    request.threads = 1;
    digest(&request, &first, &size);
    CU_ASSERT(size > 0);
    static const int threads[] = {2, 7, 2, 2};
    static const char *const isas[] = {NULL, NULL, "generic", "ref"};
    for (int i = 0; i < 4; i++) {
        request.threads = threads[i];
        if (isas[i] != NULL) setenv("NIBBLE_ISA", isas[i], 1);
        digest(&request, &bytes, &length);
        unsetenv("NIBBLE_ISA");
        NIB_CHECKF(length == size && memcmp(first, bytes, size) == 0, "%d threads, %s", threads[i],
                   isas[i] == NULL ? "usual" : isas[i]);
        free(bytes);
    }
    int rounding = fegetround();
    fesetround(FE_UPWARD);
    digest(&request, &bytes, &length);
    fesetround(rounding);
    CU_ASSERT(length == size && memcmp(first, bytes, size) == 0);
    free(bytes);
    /* One tensor alone runs on all threads. */
    static const char *const one[] = {ACTIVATIONS ":layers.5.mlp.down_proj.input"};
    request = request_for(one, 1);
    request.threads = 1;
    free(first);
    digest(&request, &first, &size);
    request.threads = 7;
    digest(&request, &bytes, &length);
    CU_ASSERT(length == size && memcmp(first, bytes, size) == 0);
    free(first);
    free(bytes);
}

static void a_bare_model_means_its_linear_layers(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    static const char *const files[] = {MODEL};
    struct nib_bias_request request = request_for(files, 1);
    request.quantizer_count = 1;
    request.rotation_count = 1;
    struct nib_bias_result *result = NULL;
    NIB_OK_OR_FAIL(nib_bias_run(&request, &result, &error), error);
    CU_ASSERT(nib_bias_views(result) == 2 * 71); /* 7 in each of 10 layers and the head, each along both axes */
    CU_ASSERT(nib_bias_skipped(result) == 22);   /* 21 norms and the embedding */
    unsigned fprop = 0, dgrad = 0;
    for (size_t v = 0; v < nib_bias_views(result); v++) {
        const struct nib_bias_view *view = nib_bias_view_at(result, v);
        CU_ASSERT(view->operand == NIB_OPERAND_W);
        fprop += view->gemm == NIB_GEMM_FPROP && view->axis == NIB_ALONG_COLS;
        dgrad += view->gemm == NIB_GEMM_DGRAD && view->axis == NIB_ALONG_ROWS;
    }
    CU_ASSERT(fprop == 71 && dgrad == 71);
    nib_bias_result_free(result);
}

static void names_tell_operand_layer_and_module(void) {
    static const struct {
        const char *name;
        unsigned rank;
        enum nib_operand operand;
        int layer;
        const char *module;
        bool linear;
    } cases[] = {
        {"model.layers.7.self_attn.q_proj.weight", 2, NIB_OPERAND_W, 7, "self_attn.q_proj", true},
        {"layers.15.mlp.down_proj.input", 2, NIB_OPERAND_X, 15, "mlp.down_proj", true},
        {"layers.5.mlp.up_proj.grad_output", 2, NIB_OPERAND_DY, 5, "mlp.up_proj", true},
        {"lm_head.weight", 2, NIB_OPERAND_W, -1, "lm_head", true},
        {"model.embed_tokens.weight", 2, NIB_OPERAND_W, -1, "model.embed_tokens", false},
        {"model.layers.0.input_layernorm.weight", 1, NIB_OPERAND_W, 0, "input_layernorm", false},
        {"", 2, NIB_OPERAND_NONE, -1, "", true},
        {"layers.x.input", 2, NIB_OPERAND_X, -1, "layers.x", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nib_tensor_info info = {.name = cases[i].name, .rank = cases[i].rank};
        struct nib_tensor_role role;
        nib_tensor_role_of(&info, &role);
        NIB_CHECKF(role.operand == cases[i].operand && role.layer == cases[i].layer && role.linear == cases[i].linear &&
                       strcmp(role.module, cases[i].module) == 0,
                   "%s: operand %d, layer %d, module %s", cases[i].name, role.operand, role.layer, role.module);
    }
}

/* Y = X W^T, dX = dY W, dW = dY^T X with W outputs x inputs: the reduced extent of both operands must agree. */
static void both_operands_of_a_gemm_are_reduced_over_the_same_extent(void) {
    enum { TOKENS = 2, INPUTS = 3, OUTPUTS = 5 };
    static const int rows[] = {TOKENS, OUTPUTS, TOKENS}, cols[] = {INPUTS, INPUTS, OUTPUTS}; /* X, W, dY */
    static const int reduced[] = {INPUTS, OUTPUTS, TOKENS};                                 /* fprop, dgrad, wgrad */
    for (int gemm = 0; gemm < NIB_GEMMS; gemm++) {
        int operands = 0;
        for (int operand = 0; operand < NIB_OPERANDS; operand++) {
            enum nib_axis axis;
            if (!nib_gemm_axis((enum nib_gemm)gemm, (enum nib_operand)operand, &axis)) continue;
            operands++;
            CU_ASSERT((axis == NIB_ALONG_COLS ? cols : rows)[operand] == reduced[gemm]);
        }
        CU_ASSERT(operands == 2);
    }
}

static void an_extent_that_cannot_be_rotated_names_the_tensor(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    char npy[129], path[] = "/tmp/nibble-bias-XXXXXX";
    snprintf(npy, sizeof npy, "\x93NUMPY\x01%cv%c%-117s\n", 1, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    npy[7] = npy[9] = 0; /* version 1.0, a header of 'v' = 118 bytes */
    int descriptor = mkstemp(path);
    float x[6] = {1, 2, 3, 4, 5, 6};
    CU_ASSERT(descriptor >= 0 && write(descriptor, npy, 128) == 128 && write(descriptor, x, 24) == 24);
    close(descriptor);
    const char *const files[] = {path};
    struct nib_bias_request request = request_for(files, 1);
    struct nib_bias_result *result = NULL;
    CU_ASSERT(nib_bias_run(&request, &result, &error) == NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "pad them to 16") != NULL && strcmp(error.file, path) == 0, "%s: %s", error.file, error.text);
    request.rotation_count = 1;
    request.gemm = NIB_GEMM_WGRAD;
    CU_ASSERT(nib_bias_run(&request, &result, &error) == NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "--operand") != NULL, "%s", error.text);
    request.operand = NIB_OPERAND_DY;
    NIB_OK_OR_FAIL(nib_bias_run(&request, &result, &error), error);
    CU_ASSERT(nib_bias_views(result) == 1 && nib_bias_view_at(result, 0)->axis == NIB_ALONG_ROWS);
    nib_bias_result_free(result);
    unlink(path);
}

NIB_TEST_MAIN("bias report", {"rotation costs E2M1 what it gives E1M2", rotation_costs_e2m1_what_it_gives_e1m2},
              {"threads and instruction sets change no byte", threads_and_instruction_sets_change_no_byte},
              {"a bare model means its linear layers", a_bare_model_means_its_linear_layers},
              {"names tell operand, layer and module", names_tell_operand_layer_and_module},
              {"both operands of a GEMM are reduced over the same extent",
               both_operands_of_a_gemm_are_reduced_over_the_same_extent},
              {"an extent that cannot be rotated names the tensor", an_extent_that_cannot_be_rotated_names_the_tensor})
