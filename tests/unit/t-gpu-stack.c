/* nibble gpu check --stack, beside a plug-in that is the emulator with faults on demand: agreement on every operand and product of a
 * small model, and that no planted fault goes unseen. */
#include "nib_files.h"
#include "nib_random_model.h"

#include <sys/wait.h>

static const struct nib_stack_config config = {.vocabulary = 128, .hidden = 64, .intermediate = 128, .layers = 2, .heads = 2, .kv_heads = 2,
                                               .head_size = 32, .positions = 64, .norm_epsilon = 1e-5, .rope_theta = 10000};
enum { LINEAR = 2 * 7 }; /* linear layers */

static void write_model(void) {
    static const char settings[] = "{\"model_type\": \"llama\", \"vocab_size\": 128, \"hidden_size\": 64, \"intermediate_size\": 128, "
                                   "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"max_position_embeddings\": 64, "
                                   "\"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\"}";
    static char file[1 << 20], header[8192] = "{", text[512];
    static float data[1 << 17];
    struct nib_random_model model = nib_random_model(&config, 7);
    size_t offset = 0;
    for (size_t i = 0; i < model.count; i++) {
        size_t rows, cols, used = strlen(header);
        const char *name = nib_stack_weight_name(model.stack, i);
        char shape[48];
        nib_stack_weight_shape(model.stack, i, &rows, &cols);
        bool vector = strstr(name, "norm.weight") != NULL;
        snprintf(shape, sizeof shape, vector ? "[%zu]" : "[%zu,%zu]", vector ? cols : rows, cols);
        snprintf(header + used, sizeof header - used, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i == 0 ? "" : ",",
                 name, shape, 4 * offset, 4 * (offset + rows * cols));
        for (size_t j = 0; j < rows * cols; j++) data[offset + j] = (float)model.weights[i][j];
        offset += rows * cols;
    }
    strcat(header, "}");
    uint64_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    memcpy(file + 8 + length, data, 4 * offset);
    nib_write("model.safetensors", file, 8 + length + 4 * offset);
    nib_write("model.config.json", settings, strlen(settings));
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(' ' + i * i % 89);
    nib_write("tokens.txt", text, sizeof text);
    nib_random_model_free(&model);
}

static char output[1 << 20];

/* Runs the program; returns its exit code, and what it wrote in `output`. */
static int check(const char *plugin, const char *fault, const char *arguments) {
    char command[2048];
    snprintf(command, sizeof command, "cd '%s' && NIBBLE_GPU_PLUGIN='%s' NIBBLE_FAKE_GPU='%s' OMP_NUM_THREADS=1 '%s' gpu check %s 2>&1", nib_folder,
             plugin, fault, getenv("NIBBLE"), arguments);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return -1;
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *fault, const char *arguments, int code, const char *says) {
    int got = check(NIB_FAKE_GPU, fault, arguments);
    bool said = strstr(output, says) != NULL;
    NIB_CHECKF(got == code && said, "fault \"%s\": %s: exit code %d, expected %d and \"%s\":\n%.3000s", fault, arguments, got, code, says, output);
}

#define STACK "--stack model.safetensors --tokens tokens.txt -s 2 -l 32 "

/* Three recipes: in each of the three GEMMs two rotations where it rotates, two quantizers, and one product. */
static void every_operand_and_product_agrees(void) {
    char sentence[96];
    const int rows = LINEAR * (3 * 5 + (3 + 3 + 5) + (3 + 3 + 5)), not_run = LINEAR * 3;
    snprintf(sentence, sizeof sentence, "%d rows compared, %d not run on this device.", rows - not_run, not_run);
    expect("", STACK "--recipe ufp4,e2m1-baseline,nvfp4", 0, sentence);
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "a fake device: 0 differences in "));
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "no instruction here computes as blackwell-tcgen05-nvfp4"));
    CU_ASSERT_PTR_NULL(strstr(output, "DIFFER"));
    /* 64 tokens; weights are 64x64 four times, and 64x128 three times. */
    const int operands = 2 * (64 * (6 * 64 + 128) + 4 * 64 * 64 + 3 * 64 * 128), outputs = 2 * 64 * (5 * 64 + 2 * 128);
    snprintf(sentence, sizeof sentence, "0 differences in %d quantized values, %d rotated values and %d outputs of products", operands, operands, outputs);
    expect("", STACK "--recipe ufp4 --no-backward", 0, sentence);
}

/* 24 tokens through rotations of 16 and steps of 16: dY and X have 32 rows in wgrad. */
static void padded_operands_agree(void) {
    const char *one = "--stack model.safetensors --tokens tokens.txt -s 2 -l 12 --recipe tetrajet2";
    char sentence[64];
    expect("", one, 0, "0 differences in ");
    CU_ASSERT_PTR_NULL(strstr(output, "DIFFER"));
    snprintf(sentence, sizeof sentence, "%d rotated values", 2 * (24 + 32) * (5 * 64 + 2 * 128)); /* dY of dgrad and of wgrad */
    CU_ASSERT_PTR_NOT_NULL(strstr(output, sentence));
    expect("product", one, 1, "rows DIFFER");
    /* The same of a recipe whose quantizers the device has. */
    static const char padded[] = "kind: recipe\ntitle: padded\nsource: test\n"
                                 "fprop: {rotation: rht16, x: {quantizer: e1m2-fp32}, w: {quantizer: e1m2-fp32}}\n"
                                 "dgrad: {rotation: rht16, dy: {quantizer: e1m2-fp32, set: [rounding=sr, sr_bits=32]}, w: {quantizer: e1m2-fp32}}\n"
                                 "wgrad: {rotation: rht16, pad: true, dy: {quantizer: e1m2-fp32, set: [rounding=sr, sr_bits=32]}, "
                                 "x: {quantizer: e1m2-fp32}}\n";
    const char *two = "--stack model.safetensors --tokens tokens.txt -s 2 -l 12 --recipe padded.yaml";
    const int in = 6 * 64 + 128, out = 5 * 64 + 2 * 128, weights = 4 * 64 * 64 + 3 * 64 * 128;
    const int operands = 2 * (24 * in + 24 * out + 2 * weights + 32 * out + 32 * in), outputs = 2 * (24 * out + 24 * in + weights);
    char sums[128];
    nib_write("padded.yaml", padded, strlen(padded));
    snprintf(sums, sizeof sums, "0 differences in %d quantized values, %d rotated values and %d outputs of products", operands, operands, outputs);
    expect("", two, 0, sums);
    expect("code", two, 1, "code of (");
    expect("scale", two, 1, "block scale (0, 0)");
}

static void one_wrong_result_is_seen(void) {
    expect("code", STACK "--recipe ufp4 --no-backward", 1, "code of (");
    expect("scale", STACK "--recipe nvfp4 --no-backward", 1, "block scale (0, 0)");
    expect("value", STACK "--recipe e2m1-baseline --no-backward", 1, "value of (");
    expect("amax", STACK "--recipe nvfp4 --no-backward", 1, "tensor amax: device");
    expect("product", STACK "--recipe ufp4", 1, "output (0, 0) of 64x64: device");
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "rows DIFFER"));
}

static void a_trapping_kernel_is_a_failure(void) {
    expect("trap", STACK "--recipe ufp4 --no-backward", 1, "an illegal memory access was encountered; nothing it returned was used");
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "FAILED"));
}

static void results_are_tables(void) {
    expect("", STACK "--recipe nvfp4 --no-backward --json", 0, "\"nibble.gpu/1\"");
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "\"differing_rows\": 0"));
    expect("", STACK "--recipe nvfp4 --no-backward --tsv", 0, "recipe\tpart\tlayer\tmodule\tslot\tname\tcompared\t");
    expect("", STACK "--recipe nvfp4 --no-backward -o check.h5 && h5ls check.h5", 0, "gpu_check_stack_summary");
}

static void what_does_not_fit_is_refused_before_it_computes(void) {
    expect("", "--stack model.safetensors --tokens tokens.txt", 2, "gpu check --stack: --recipe is missing");
    expect("", "--stack model.safetensors --recipe ufp4", 2, "gpu check --stack: --tokens is missing");
    expect("", "--recipe ufp4", 2, "gpu: --recipe goes with gpu check --stack");
    expect("", STACK "--recipe ufp4 --full", 2, "gpu: --full does not go with gpu check --stack");
    expect("", STACK "--recipe ufp4 more.npy", 2, "unexpected argument \"more.npy\"");
    expect("", STACK "--recipe nonesuch", 2, "nonesuch");
    expect("", "--stack model.safetensors --tokens tokens.txt -s 1 -l 24 --recipe ufp4", 2,
           "recipe ufp4 rotates wgrad in groups of 16; 24 tokens are no multiple of it, 32 would be");
    expect("", "--stack model.safetensors --tokens tokens.txt -s 1 -l 16 --recipe ufp4,nvfp4", 2,
           "recipe nvfp4 sends wgrad through blackwell-tcgen05-nvfp4 in steps of 64; 16 tokens are no multiple of it, 64 would be");
    expect("", "--stack nowhere.safetensors --tokens tokens.txt --recipe ufp4", 3, "nowhere.safetensors: cannot open");
    expect("none", STACK "--recipe ufp4", 4, "device 0 does not exist");
    CU_ASSERT_EQUAL(check("/nonexistent/plugin.so", "", STACK "--recipe ufp4"), 4);
}

static void all(void) {
    write_model();
    every_operand_and_product_agrees();
    padded_operands_agree();
    one_wrong_result_is_seen();
    a_trapping_kernel_is_a_failure();
    results_are_tables();
    what_does_not_fit_is_refused_before_it_computes();
    nib_remove_folder();
}

NIB_TEST_MAIN("gpu check --stack", {"a small model on both sides", all})
