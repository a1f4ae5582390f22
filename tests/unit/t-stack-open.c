/* What a model must have: every fault is an error that names it, before anything is computed. */
#include "nib_files.h"
#include "nib_random_model.h"

#include "io/model_config.h"
#include "io/tokens.h"

static struct nib_error error;

/* A config.json of the right kind, with `changes` instead of the keys that they name. */
struct change {
    const char *key, *value; /* NULL: left out */
};

static const struct change base[] = {{"architectures", "[\"LlamaForCausalLM\"]"},
                                     {"model_type", "\"llama\""},
                                     {"vocab_size", "11"},
                                     {"hidden_size", "16"},
                                     {"intermediate_size", "20"},
                                     {"num_hidden_layers", "2"},
                                     {"num_attention_heads", "4"},
                                     {"num_key_value_heads", "2"},
                                     {"head_dim", "6"},
                                     {"max_position_embeddings", "16"},
                                     {"rms_norm_eps", "1e-3"},
                                     {"rope_theta", "50"},
                                     {"tie_word_embeddings", "false"},
                                     {"hidden_act", "\"silu\""},
                                     {"attention_bias", "false"},
                                     {"rope_scaling", "null"}};

static const char *write_config(const struct change *changes, size_t count) {
    char text[2048] = "{";
    size_t known = sizeof base / sizeof *base;
    for (size_t i = 0; i < known + count; i++) {
        const struct change *item = i < known ? &base[i] : &changes[i - known];
        for (size_t j = 0; j < count && i < known && item != NULL; j++)
            if (strcmp(changes[j].key, item->key) == 0) item = NULL;
        if (item == NULL || item->value == NULL) continue;
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s\"%s\": %s", used == 1 ? "" : ", ", item->key, item->value);
    }
    strcat(text, "}");
    return nib_write("config.json", text, strlen(text));
}

static void configuration_is_read(void) {
    struct nib_stack_config c;
    NIB_OK_OR_FAIL(nib_model_config_read(write_config(NULL, 0), &c, &error), error);
    CU_ASSERT(c.vocabulary == 11 && c.hidden == 16 && c.intermediate == 20 && c.layers == 2 && c.heads == 4);
    CU_ASSERT(c.kv_heads == 2 && c.head_size == 6 && c.positions == 16 && !c.tied);
    CU_ASSERT(c.norm_epsilon == 1e-3 && c.rope_theta == 50);
}

/* The defaults of Hugging Face, and the place of theta in newer files. */
static void defaults_are_those_of_the_reference(void) {
    static const struct change less[] = {{"num_key_value_heads", NULL},
                                         {"head_dim", "null"},
                                         {"rope_theta", NULL},
                                         {"tie_word_embeddings", NULL},
                                         {"hidden_act", NULL}};
    static const struct change newer[] = {{"rope_theta", NULL},
                                          {"rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 500000.0}"},
                                          {"tie_word_embeddings", "true"},
                                          {"layer_types", "[\"full_attention\", \"full_attention\"]"}};
    struct nib_stack_config c;
    NIB_OK_OR_FAIL(nib_model_config_read(write_config(less, 5), &c, &error), error);
    CU_ASSERT(c.kv_heads == 4 && c.head_size == 4 && c.rope_theta == 10000 && !c.tied);
    NIB_OK_OR_FAIL(nib_model_config_read(write_config(newer, 4), &c, &error), error);
    CU_ASSERT(c.rope_theta == 500000 && c.tied);
}

static void faults_of_a_configuration_are_named(void) {
    static const struct {
        struct change change;
        const char *says;
    } faults[] = {
        {{"model_type", NULL}, "has no model_type"},
        {{"model_type", "\"mistral\""}, "model_type is \"mistral\"; expected \"llama\""},
        {{"vocab_size", NULL}, "has no vocab_size"},
        {{"hidden_size", NULL}, "has no hidden_size"},
        {{"hidden_size", "\"16\""}, "hidden_size is \"16\"; expected an integer from 1 to 2^30"},
        {{"hidden_size", "16.5"}, "hidden_size is 16.5"},
        {{"intermediate_size", "0"}, "intermediate_size is 0"},
        {{"num_hidden_layers", "-1"}, "num_hidden_layers is -1"},
        {{"num_attention_heads", "true"}, "num_attention_heads is true"},
        {{"num_key_value_heads", "3"}, "num_key_value_heads is 3, which does not divide num_attention_heads 4"},
        {{"head_dim", "5"}, "head_dim is 5"},
        {{"max_position_embeddings", NULL}, "has no max_position_embeddings"},
        {{"rms_norm_eps", NULL}, "has no rms_norm_eps"},
        {{"rms_norm_eps", "\"1e-5\""}, "rms_norm_eps is \"1e-5\"; expected a positive number"},
        {{"rope_theta", "0"}, "rope_theta is 0"},
        {{"rope_scaling", "{\"type\": \"linear\", \"factor\": 2.0}"}, "rope_scaling is"},
        {{"rope_scaling", "2"}, "rope_scaling is 2; expected an object or null"},
        {{"rope_parameters", "{\"rope_type\": \"llama3\"}"}, "rope_parameters is {\"rope_type\":\"llama3\"}"},
        {{"rope_parameters", "{\"factor\": 8}"}, "rope_parameters is"},
        {{"tie_word_embeddings", "1"}, "tie_word_embeddings is 1; expected true or false"},
        {{"hidden_act", "\"gelu\""}, "hidden_act is \"gelu\"; expected \"silu\""},
        {{"attention_bias", "true"}, "attention_bias is true; expected false or null"},
        {{"mlp_bias", "true"}, "mlp_bias is true"},
        {{"sliding_window", "4096"}, "sliding_window is 4096"},
        {{"attention_dropout", "0.1"}, "attention_dropout is 0.1; expected 0"},
        {{"partial_rotary_factor", "0.5"}, "partial_rotary_factor is 0.5; expected 1"},
        {{"quantization_config", "{\"bits\": 4}"}, "quantization_config is"},
        {{"layer_types", "[\"full_attention\", \"sliding_attention\"]"},
         "layer_types has \"sliding_attention\" for layer 1; expected \"full_attention\" for every layer"},
        {{"layer_types", "[\"full_attention\"]"}, "layer_types is [\"full_attention\"]; expected a list of num_hidden_layers 2"},
        {{"layer_types", "[\"full_attention\", 7]"}, "layer_types has 7 for layer 1"},
        {{"layer_types", "\"full_attention\""}, "layer_types is \"full_attention\"; expected a list"},
        {{"num_experts", "8"}, "num_experts is no key"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct nib_stack_config untouched = {.hidden = 77};
        nib_expect_error(nib_model_config_read(write_config(&faults[i].change, 1), &untouched, &error),
                         NIB_EINCONSISTENT, &error, "config.json", faults[i].says, faults[i].change.key);
        CU_ASSERT_EQUAL(untouched.hidden, 77);
    }
    struct nib_stack_config c;
    nib_expect_error(nib_model_config_read(nib_write("x.json", "{\"model_type\": ", 15), &c, &error), NIB_ESYNTAX,
                     &error, "x.json", "is no JSON", "cut off");
    nib_expect_error(nib_model_config_read(nib_write("x.json", "[1]", 3), &c, &error), NIB_ESYNTAX, &error, "x.json",
                     "no object", "an array");
    nib_expect_error(nib_model_config_read("/nowhere/config.json", &c, &error), NIB_EIO, &error, "/nowhere/config.json",
                     "", "missing file");
}

static void a_configuration_is_found_beside_its_model(void) {
    char *path;
    const char *config = write_config(NULL, 0);
    NIB_OK_OR_FAIL(nib_model_config_find(nib_folder, &path, &error), error);
    CU_ASSERT_STRING_EQUAL(path, config);
    free(path);
    NIB_OK_OR_FAIL(nib_model_config_find(nib_temporary("model.safetensors.index.json"), &path, &error), error);
    CU_ASSERT_STRING_EQUAL(path, config);
    free(path);
    const char *own = nib_write("model.config.json", "{}", 2);
    NIB_OK_OR_FAIL(nib_model_config_find(nib_temporary("model.safetensors"), &path, &error), error);
    CU_ASSERT_STRING_EQUAL(path, own);
    free(path);
    nib_expect_error(nib_model_config_find("/nowhere/m.safetensors", &path, &error), NIB_EIO, &error,
                     "/nowhere/m.safetensors", "cannot open", "missing model");
}

/* A file with the weights of a random model; hooks change one tensor. */
static const struct nib_stack_config config = {.vocabulary = 11,
                                               .hidden = 16,
                                               .intermediate = 20,
                                               .layers = 2,
                                               .heads = 4,
                                               .kv_heads = 2,
                                               .head_size = 6,
                                               .positions = 16,
                                               .norm_epsilon = 1e-3,
                                               .rope_theta = 50};
struct edit {
    const char *name, *dtype, *shape; /* what the header says of that tensor instead; shape NULL: left out */
    const char *extra;                /* an entry more, of 16 bytes of zeros */
};

static unsigned bytes_of(const char *dtype) {
    return strcmp(dtype, "F64") == 0 ? 8 : strcmp(dtype, "F32") == 0 ? 4 : 2;
}

static void put(const char *dtype, double value, char *to) {
    float single = (float)value;
    if (strcmp(dtype, "F64") == 0) memcpy(to, &value, 8);
    if (strcmp(dtype, "F32") == 0) memcpy(to, &single, 4);
    if (strcmp(dtype, "BF16") == 0) memcpy(to, (char *)&single + 2, 2); /* truncated */
}

/* The weights with numbers from `first` to `end`. */
static const char *write_part(const char *name, const struct nib_random_model *model, const char *dtype, size_t first,
                              size_t end, const struct edit *edit) {
    static char file[1 << 19];
    char header[8192] = "{", *data = calloc(1, 1 << 19);
    size_t offset = 0;
    if (data == NULL) abort();
    for (size_t i = first; i < end; i++) {
        size_t rows, cols, used = strlen(header);
        const char *weight = nib_stack_weight_name(model->stack, i);
        bool edited = edit != NULL && edit->name != NULL && strcmp(edit->name, weight) == 0;
        char shape[48];
        nib_stack_weight_shape(model->stack, i, &rows, &cols);
        bool vector = strstr(weight, "norm.weight") != NULL;
        snprintf(shape, sizeof shape, vector ? "[%zu]" : "[%zu,%zu]", vector ? cols : rows, cols);
        if (edited && edit->shape == NULL) continue;
        for (size_t j = 0; j < rows * cols; j++) put(dtype, model->weights[i][j], data + offset + j * bytes_of(dtype));
        size_t size = rows * cols * bytes_of(dtype);
        snprintf(header + used, sizeof header - used,
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", used == 1 ? "" : ",", weight,
                 edited ? edit->dtype : dtype, edited ? edit->shape : shape, offset, offset + size);
        offset += size;
    }
    if (edit != NULL && edit->extra != NULL) {
        size_t used = strlen(header);
        snprintf(header + used, sizeof header - used,
                 ",\"%s\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[%zu,%zu]}", edit->extra, offset,
                 offset + 16);
        offset += 16;
    }
    strcat(header, "}");
    uint64_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    memcpy(file + 8 + length, data, offset);
    free(data);
    return nib_write(name, file, 8 + length + offset);
}

static enum nib_status open_model(const char *path, const struct nib_stack_config *wanted, struct nib_file **file,
                                  const struct nib_stack **stack) {
    *stack = NULL;
    enum nib_status status = nib_file_open(path, file, &error);
    if (status != NIB_OK) return status;
    status = nib_stack_open(wanted, *file, stack, &error);
    if (status != NIB_OK) nib_file_close(*file);
    return status;
}

/* The loss of a model in a file is that of its values, whatever type and file holds them. */
static void check_loss(const char *path, const struct nib_stack_config *wanted, const struct nib_random_model *model) {
    uint64_t state = 5;
    uint32_t *ids = nib_random_tokens(&state, config.vocabulary, 2 * 8);
    struct nib_stack_run run = {.precision = NIB_STACK_F64, .threads = 1};
    struct nib_stack_result from_file, from_values;
    struct nib_file *file;
    const struct nib_stack *stack;
    NIB_OK_OR_FAIL(open_model(path, wanted, &file, &stack), error);
    CU_ASSERT_EQUAL(nib_stack_weights(stack), model->count);
    NIB_OK_OR_FAIL(nib_stack_execute(stack, &run, ids, 2, 7, &from_file, &error), error);
    NIB_OK_OR_FAIL(nib_stack_execute(model->stack, &run, ids, 2, 7, &from_values, &error), error);
    CU_ASSERT_EQUAL(from_file.loss, from_values.loss);
    nib_stack_result_clear(&from_file);
    nib_stack_result_clear(&from_values);
    nib_stack_close(stack);
    nib_file_close(file);
    free(ids);
}

/* Rounds the values of a model to what a type can hold. */
static void round_model(struct nib_random_model *model, const char *dtype) {
    for (size_t i = 0; i < model->count; i++) {
        size_t rows, cols;
        nib_stack_weight_shape(model->stack, i, &rows, &cols);
        for (size_t j = 0; j < rows * cols; j++) {
            float single = (float)model->weights[i][j];
            uint32_t bits;
            memcpy(&bits, &single, 4);
            if (strcmp(dtype, "BF16") == 0) bits &= 0xFFFF0000u;
            memcpy(&single, &bits, 4);
            if (strcmp(dtype, "F64") != 0) model->weights[i][j] = (double)single;
        }
    }
}

/* The same numbers in each type that can hold them; wide enough for weights of several chunks. */
static void weights_of_every_type_are_read(void) {
    struct nib_stack_config wide = config;
    wide.intermediate = 300;
    static const char *const types[] = {"F64", "F64", "F32", "BF16"}, *const holds[] = {"F64", "F32", "F32", "BF16"};
    for (size_t i = 0; i < 4; i++) {
        struct nib_random_model model = nib_random_model(&wide, 1);
        round_model(&model, holds[i]);
        check_loss(write_part("m.safetensors", &model, types[i], 0, model.count, NULL), &wide, &model);
        nib_random_model_free(&model);
    }
}

static void shards_and_tied_heads_are_read(void) {
    struct nib_stack_config tied = config;
    tied.tied = true;
    struct nib_random_model model = nib_random_model(&tied, 2);
    write_part("a.safetensors", &model, "F64", 0, 9, NULL);
    write_part("b.safetensors", &model, "F64", 9, model.count, NULL);
    char index[4096] = "{\"weight_map\": {";
    for (size_t i = 0; i < model.count; i++)
        sprintf(index + strlen(index), "%s\"%s\": \"%s\"", i == 0 ? "" : ", ", nib_stack_weight_name(model.stack, i),
                i < 9 ? "a.safetensors" : "b.safetensors");
    strcat(index, "}}");
    nib_write("model.safetensors.index.json", index, strlen(index));
    check_loss(nib_folder, &tied, &model);
    const struct edit old = {.extra = "model.layers.1.self_attn.rotary_emb.inv_freq"};
    check_loss(write_part("m.safetensors", &model, "F64", 0, model.count, &old), &tied, &model);
    nib_random_model_free(&model);
}

static void faults_of_a_file_are_named(void) {
    static const struct {
        struct edit edit;
        enum nib_status status;
        const char *says;
    } faults[] = {
        {{"model.layers.1.mlp.up_proj.weight", NULL, NULL, NULL},
         NIB_EINCONSISTENT,
         "has no tensor \"model.layers.1.mlp.up_proj.weight\""},
        {{"lm_head.weight", NULL, NULL, NULL}, NIB_EINCONSISTENT, "has no tensor \"lm_head.weight\""},
        {{.extra = "model.layers.2.input_layernorm.weight"},
         NIB_EINCONSISTENT,
         "tensor \"model.layers.2.input_layernorm.weight\" is no weight of a LLaMA-style decoder of 2 layers"},
        {{.extra = "model.layers.0.self_attn.q_proj.bias"}, NIB_EINCONSISTENT, "model.layers.0.self_attn.q_proj.bias"},
        {{"model.layers.0.self_attn.k_proj.weight", "F32", "[16,12]", NULL},
         NIB_EINCONSISTENT,
         "tensor \"model.layers.0.self_attn.k_proj.weight\" is 16x12; the configuration wants 12x16"},
        {{"model.layers.0.self_attn.o_proj.weight", "F32", "[16,24,1]", NULL},
         NIB_EINCONSISTENT,
         "is 16x24x1; the configuration wants 16x24"},
        {{"model.norm.weight", "F32", "[1,16]", NULL},
         NIB_EINCONSISTENT,
         "tensor \"model.norm.weight\" is 1x16; the configuration wants 16"},
        {{"model.norm.weight", "I32", "[16]", NULL}, NIB_EINVAL, "tensor \"model.norm.weight\" has dtype I32"}};
    struct nib_random_model model = nib_random_model(&config, 4);
    struct nib_file *file;
    const struct nib_stack *stack;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *path = write_part("m.safetensors", &model, "F32", 0, model.count, &faults[i].edit);
        nib_expect_error(open_model(path, &config, &file, &stack), faults[i].status, &error, "m.safetensors",
                         faults[i].says, faults[i].says);
        CU_ASSERT_PTR_NULL(stack);
    }
    struct nib_stack_config tied = config;
    tied.tied = true;
    nib_expect_error(open_model(write_part("m.safetensors", &model, "F32", 0, model.count, NULL), &tied, &file, &stack),
                     NIB_EINCONSISTENT, &error, "m.safetensors", "lm_head.weight", "tied, with a head");
    nib_random_model_free(&model);
}

static void bad_batches_are_refused(void) {
    struct nib_random_model model = nib_random_model(&config, 4);
    struct nib_stack_run run = {.precision = NIB_STACK_F64};
    struct nib_stack_result result = {.loss = 7};
    uint32_t ids[40] = {0};
    ids[9] = 11;
    nib_expect_error(nib_stack_execute(model.stack, &run, ids, 2, 7, &result, &error), NIB_EINVAL, &error, NULL,
                     "token 1 of sequence 1 is 11; the vocabulary has 11", "token");
    nib_expect_error(nib_stack_execute(model.stack, &run, ids, 1, 17, &result, &error), NIB_EINVAL, &error, NULL,
                     "sequences of 17 tokens; the model takes 16", "length");
    nib_expect_error(nib_stack_execute(model.stack, &run, ids, 0, 7, &result, &error), NIB_EINVAL, &error, NULL,
                     "no tokens", "nothing");
    CU_ASSERT_EQUAL(result.loss, 7);
    nib_random_model_free(&model);
}

static void expect_tokens(const char *locator, size_t rows, size_t cols, const uint32_t *ids) {
    struct nib_tokens tokens;
    NIB_OK_OR_FAIL(nib_tokens_read(locator, 300, &tokens, &error), error);
    NIB_CHECKF(tokens.rows == rows && tokens.cols == cols, "%s: %zu x %zu", locator, tokens.rows, tokens.cols);
    NIB_CHECKF(memcmp(tokens.ids, ids, rows * cols * sizeof *ids) == 0, "%s: other tokens", locator);
    nib_tokens_clear(&tokens);
}

static const char *write_npy(const char *dtype, const char *shape, const void *data, size_t size) {
    char file[512], header[118];
    memset(file, 0, sizeof file);
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape);
    memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
    snprintf(file + 10, 120, "%-117s\n", header);
    memcpy(file + 128, data, size);
    return nib_write("t.npy", file, 128 + size);
}

static void tokens_are_bytes_or_integers(void) {
    static const uint32_t text[] = {'H', 0xC3, 0xA9, '\n'}, six[] = {1, 2, 299, 4, 5, 0};
    static const uint16_t words[] = {1, 2, 299, 4, 5, 0};
    static const int64_t wide[] = {1, 2, 299, 4, 5, 0};
    expect_tokens(nib_write("t.txt", "H\xC3\xA9\n", 4), 1, 4, text);
    expect_tokens(write_npy("<u2", "(6,)", words, sizeof words), 1, 6, six);
    expect_tokens(write_npy("<u2", "(2, 3)", words, sizeof words), 2, 3, six);
    expect_tokens(write_npy("<i8", "(3, 2)", wide, sizeof wide), 3, 2, six);
    char safe[256];
    const char header[] = "{\"a\":{\"dtype\":\"U16\",\"shape\":[6],\"data_offsets\":[0,12]},"
                          "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]}}";
    uint64_t length = strlen(header);
    memset(safe, 0, sizeof safe);
    memcpy(safe, &length, 8);
    memcpy(safe + 8, header, length);
    memcpy(safe + 8 + length, words, sizeof words);
    const char *path = nib_write("t.safetensors", safe, 8 + length + 24);
    char locator[600];
    snprintf(locator, sizeof locator, "%s:a", path);
    expect_tokens(locator, 1, 6, six);
    struct nib_tokens tokens;
    snprintf(locator, sizeof locator, "%s:b", path);
    nib_expect_error(nib_tokens_read(locator, 300, &tokens, &error), NIB_EINVAL, &error, "t.safetensors",
                     "\"b\" has dtype F32; tokens are integers", "floats");
    nib_expect_error(nib_tokens_read(path, 300, &tokens, &error), NIB_ENOTFOUND, &error, "t.safetensors", "2 tensors",
                     "two");
}

static void faults_of_tokens_are_named(void) {
    static const uint16_t words[] = {1, 2, 299, 4, 5, 0};
    static const int8_t negative[] = {1, 2, -3};
    struct nib_tokens tokens;
    uint32_t *ids;
    nib_expect_error(nib_tokens_read(write_npy("<u2", "(6,)", words, sizeof words), 299, &tokens, &error),
                     NIB_EINCONSISTENT, &error, "t.npy", "token 2 is 299; the vocabulary has 299", "range");
    nib_expect_error(nib_tokens_read(nib_write("t.txt", "az", 2), 'z', &tokens, &error), NIB_EINCONSISTENT, &error,
                     "t.txt", "token 1 is 122; the vocabulary has 122", "range of a text");
    nib_expect_error(nib_tokens_read(write_npy("|i1", "(3,)", negative, 3), 300, &tokens, &error), NIB_EINCONSISTENT,
                     &error, "t.npy", "token 2 is negative", "negative");
    nib_expect_error(nib_tokens_read(write_npy("<u2", "(1, 2, 3)", words, sizeof words), 300, &tokens, &error),
                     NIB_EINVAL, &error, "t.npy", "has 3 dimensions", "rank");
    nib_expect_error(nib_tokens_read("/nowhere/t.txt", 300, &tokens, &error), NIB_EIO, &error, "/nowhere", "",
                     "missing");
    NIB_OK_OR_FAIL(nib_tokens_read(write_npy("<u2", "(6,)", words, sizeof words), 300, &tokens, &error), error);
    nib_expect_error(nib_tokens_sequences(&tokens, 3, 2, &ids, &error), NIB_EINVAL, &error, NULL,
                     "3 sequences of 2 tokens", "too many");
    NIB_OK_OR_FAIL(nib_tokens_sequences(&tokens, 2, 2, &ids, &error), error);
    static const uint32_t wanted[] = {1, 2, 299, 299, 4, 5};
    CU_ASSERT(memcmp(ids, wanted, sizeof wanted) == 0);
    free(ids);
    nib_tokens_clear(&tokens);
    NIB_OK_OR_FAIL(nib_tokens_read(write_npy("<u2", "(2, 3)", words, sizeof words), 300, &tokens, &error), error);
    NIB_OK_OR_FAIL(nib_tokens_sequences(&tokens, 2, 1, &ids, &error), error);
    static const uint32_t rows[] = {1, 2, 4, 5};
    CU_ASSERT(memcmp(ids, rows, sizeof rows) == 0);
    free(ids);
    nib_tokens_clear(&tokens);
    CU_ASSERT(nib_remove_folder() > 0);
}

NIB_TEST_MAIN("stack: open", {"a configuration is read", configuration_is_read},
              {"defaults are those of the reference", defaults_are_those_of_the_reference},
              {"faults of a configuration are named", faults_of_a_configuration_are_named},
              {"a configuration is found beside its model", a_configuration_is_found_beside_its_model},
              {"weights of every type are read", weights_of_every_type_are_read},
              {"shards and tied heads are read", shards_and_tied_heads_are_read},
              {"faults of a file are named", faults_of_a_file_are_named},
              {"bad batches are refused", bad_batches_are_refused},
              {"tokens are bytes or integers", tokens_are_bytes_or_integers},
              {"faults of tokens are named", faults_of_tokens_are_named})
