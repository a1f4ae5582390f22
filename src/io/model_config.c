#include "io/model_config.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/mapping.h"
#include "io/text.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct reader {
    const char *path;
    json_t *root;
    struct nib_error *error;
};

/* Keys that say nothing about the computation of one pass. */
static const char *const idle[] = {"architectures",
                                   "auto_map",
                                   "bad_words_ids",
                                   "begin_suppress_tokens",
                                   "bos_token_id",
                                   "chunk_size_feed_forward",
                                   "cross_attention_hidden_size",
                                   "decoder_start_token_id",
                                   "diversity_penalty",
                                   "do_sample",
                                   "dtype",
                                   "early_stopping",
                                   "encoder_no_repeat_ngram_size",
                                   "eos_token_id",
                                   "exponential_decay_length_penalty",
                                   "finetuning_task",
                                   "forced_bos_token_id",
                                   "forced_eos_token_id",
                                   "id2label",
                                   "initializer_range",
                                   "is_decoder",
                                   "is_encoder_decoder",
                                   "is_llama_config",
                                   "label2id",
                                   "length_penalty",
                                   "max_length",
                                   "max_sequence_length",
                                   "min_length",
                                   "no_repeat_ngram_size",
                                   "num_beam_groups",
                                   "num_beams",
                                   "num_return_sequences",
                                   "output_attentions",
                                   "output_hidden_states",
                                   "output_scores",
                                   "pad_token_id",
                                   "prefix",
                                   "pretraining_tp",
                                   "problem_type",
                                   "pruned_heads",
                                   "remove_invalid_values",
                                   "repetition_penalty",
                                   "return_dict",
                                   "return_dict_in_generate",
                                   "sep_token_id",
                                   "suppress_tokens",
                                   "task_specific_params",
                                   "temperature",
                                   "tf_legacy_loss",
                                   "tokenizer_class",
                                   "top_k",
                                   "top_p",
                                   "torch_dtype",
                                   "torchscript",
                                   "transformers_version",
                                   "transformers.js_config",
                                   "typical_p",
                                   "unk_token_id",
                                   "unsloth_fixed",
                                   "unsloth_version",
                                   "use_bfloat16",
                                   "use_cache"};

/* Keys that this file reads. */
static const char *const read_here[] = {
    "model_type",          "vocab_size",          "hidden_size",     "intermediate_size",       "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim",        "max_position_embeddings", "rms_norm_eps",
    "rope_theta",          "rope_scaling",        "rope_parameters", "tie_word_embeddings",     "hidden_act",
    "layer_types"};

/* Keys that must have the value that changes nothing, or null. */
static const struct {
    const char *key;
    bool is_number;
    double number; /* 0 for false */
} neutral[] = {{"attention_bias", false, 0},       {"mlp_bias", false, 0},
               {"sliding_window", false, 0},       {"use_sliding_window", false, 0},
               {"attention_dropout", true, 0},     {"hidden_dropout", true, 0},
               {"partial_rotary_factor", true, 1}, {"rope_interleaved", false, 0},
               {"quantization_config", false, 0},  {"add_cross_attention", false, 0},
               {"tie_encoder_decoder", false, 0},  {"logit_scale", true, 1},
               {"embedding_multiplier", true, 1},  {"residual_multiplier", true, 1},
               {"attention_multiplier", true, 1}};

static bool listed(const char *key, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, list[i]) == 0) return true;
    return false;
}

static const char *shown(const json_t *value, char buffer[static 80]) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *result = text == NULL ? "something unprintable" : nib_printable(text, buffer);
    free(text);
    return result;
}

static enum nib_status wrong(const struct reader *reader, const char *key, const json_t *value, const char *expected) {
    char buffer[80];
    return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0, "%s is %s; expected %s", key,
                       shown(value, buffer), expected);
}

/* NULL for a key that is missing or null. */
static const json_t *value_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* `fallback` 0: the key is needed. */
static enum nib_status read_size(const struct reader *reader, const char *key, unsigned fallback, unsigned *out) {
    const json_t *value = value_of(reader->root, key);
    if (value == NULL && fallback == 0)
        return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0, "has no %s", key);
    if (value == NULL) {
        *out = fallback;
        return NIB_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > 1 << 30)
        return wrong(reader, key, value, "an integer from 1 to 2^30");
    *out = (unsigned)json_integer_value(value);
    return NIB_OK;
}

/* Of `object`; a missing key leaves *out as it is. */
static enum nib_status read_number(const struct reader *reader, const json_t *object, const char *key, double *out) {
    const json_t *value = value_of(object, key);
    if (value == NULL) return NIB_OK;
    if (!json_is_number(value) || !(json_number_value(value) > 0))
        return wrong(reader, key, value, "a positive number");
    *out = json_number_value(value);
    return NIB_OK;
}

static enum nib_status want_text(const struct reader *reader, const json_t *object, const char *key, const char *wanted,
                                 bool needed) {
    const json_t *value = value_of(object, key);
    char expected[64];
    if (value == NULL && !needed) return NIB_OK;
    if (value == NULL) return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0, "has no %s", key);
    snprintf(expected, sizeof expected, "\"%s\"", wanted);
    if (!json_is_string(value) || strcmp(json_string_value(value), wanted) != 0)
        return wrong(reader, key, value, expected);
    return NIB_OK;
}

/* rope_scaling (older) or rope_parameters (newer): only the plain rotation. */
static enum nib_status read_rope(const struct reader *reader, const char *key, double *theta) {
    const json_t *value = value_of(reader->root, key);
    const char *member;
    const json_t *ignored;
    if (value == NULL) return NIB_OK;
    if (!json_is_object(value)) return wrong(reader, key, value, "an object or null");
    enum nib_status status = NIB_OK;
    json_object_foreach((json_t *)(uintptr_t)value, member, ignored) {
        if (strcmp(member, "rope_type") == 0 || strcmp(member, "type") == 0)
            status = json_is_string(ignored) && strcmp(json_string_value(ignored), "default") == 0
                         ? NIB_OK
                         : wrong(reader, key, value, "the plain rotation (rope_type \"default\")");
        else if (strcmp(member, "rope_theta") == 0)
            status = read_number(reader, value, member, theta);
        else
            status = wrong(reader, key, value, "the plain rotation, with nothing but rope_type and rope_theta");
        if (status != NIB_OK) return status;
    }
    return NIB_OK;
}

/* Newer files say of each layer what its attention sees: here only all of the past. */
static enum nib_status read_layer_types(const struct reader *reader, unsigned layers) {
    const json_t *types = value_of(reader->root, "layer_types");
    char buffer[80];
    if (types == NULL) return NIB_OK;
    if (!json_is_array(types) || json_array_size(types) != layers)
        return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0,
                           "layer_types is %s; expected a list of num_hidden_layers %u texts", shown(types, buffer), layers);
    for (size_t i = 0; i < layers; i++) {
        const json_t *type = json_array_get(types, i);
        if (!json_is_string(type) || strcmp(json_string_value(type), "full_attention") != 0)
            return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0,
                               "layer_types has %s for layer %zu; expected \"full_attention\" for every layer",
                               shown(type, buffer), i);
    }
    return NIB_OK;
}

static enum nib_status refuse_others(const struct reader *reader) {
    const char *key;
    const json_t *value;
    char buffer[80];
    json_object_foreach(reader->root, key, value) {
        bool is_neutral = false;
        if (key[0] == '_' || listed(key, idle, sizeof idle / sizeof *idle) ||
            listed(key, read_here, sizeof read_here / sizeof *read_here))
            continue;
        for (size_t i = 0; i < sizeof neutral / sizeof *neutral && !is_neutral; i++) {
            if (strcmp(key, neutral[i].key) != 0) continue;
            is_neutral = true;
            if (json_is_null(value) || json_is_false(value)) continue;
            if (neutral[i].is_number && json_is_number(value) && json_number_value(value) == neutral[i].number)
                continue;
            return wrong(reader, key, value,
                         neutral[i].is_number ? neutral[i].number == 0 ? "0" : "1" : "false or null");
        }
        if (!is_neutral)
            return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0,
                               "%s is no key of a LLaMA-style model that is known here", nib_printable(key, buffer));
    }
    return NIB_OK;
}

static enum nib_status read_all(const struct reader *reader, struct nib_stack_config *config) {
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum nib_status status_ = (call);                                                                              \
        if (status_ != NIB_OK) return status_;                                                                         \
    } while (0)
    TRY(want_text(reader, reader->root, "model_type", "llama", true));
    TRY(refuse_others(reader));
    TRY(want_text(reader, reader->root, "hidden_act", "silu", false));
    TRY(read_size(reader, "vocab_size", 0, &config->vocabulary));
    TRY(read_size(reader, "hidden_size", 0, &config->hidden));
    TRY(read_size(reader, "intermediate_size", 0, &config->intermediate));
    TRY(read_size(reader, "num_hidden_layers", 0, &config->layers));
    TRY(read_layer_types(reader, config->layers));
    TRY(read_size(reader, "num_attention_heads", 0, &config->heads));
    TRY(read_size(reader, "num_key_value_heads", config->heads, &config->kv_heads));
    TRY(read_size(reader, "max_position_embeddings", 0, &config->positions));
    if (value_of(reader->root, "head_dim") == NULL && config->hidden % config->heads != 0)
        return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0,
                           "has no head_dim, and hidden_size %u is no multiple of num_attention_heads %u",
                           config->hidden, config->heads);
    TRY(read_size(reader, "head_dim", config->hidden / config->heads, &config->head_size));
    if (config->heads % config->kv_heads != 0)
        return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0,
                           "num_key_value_heads is %u, which does not divide num_attention_heads %u", config->kv_heads,
                           config->heads);
    if (config->head_size % 2 != 0)
        return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0,
                           "head_dim is %u; rotary positions need an even number", config->head_size);
    if (value_of(reader->root, "rms_norm_eps") == NULL)
        return nib_fail_at(reader->error, NIB_EINCONSISTENT, reader->path, 0, "has no rms_norm_eps");
    TRY(read_number(reader, reader->root, "rms_norm_eps", &config->norm_epsilon));
    config->rope_theta = 10000;
    TRY(read_number(reader, reader->root, "rope_theta", &config->rope_theta));
    TRY(read_rope(reader, "rope_scaling", &config->rope_theta));
    TRY(read_rope(reader, "rope_parameters", &config->rope_theta));
    const json_t *tied = value_of(reader->root, "tie_word_embeddings");
    if (tied != NULL && !json_is_boolean(tied)) return wrong(reader, "tie_word_embeddings", tied, "true or false");
    config->tied = json_is_true(tied);
    return NIB_OK;
#undef TRY
}

enum nib_status nib_model_config_read(const char *path, struct nib_stack_config *out, struct nib_error *error) {
    char buffer[80];
    struct nib_mapping *mapping;
    json_error_t why;
    enum nib_status status = nib_mapping_open(path, &mapping, error);
    if (status != NIB_OK) return status;
    struct reader reader = {
        path, json_loadb((const char *)mapping->data, (size_t)mapping->size, JSON_REJECT_DUPLICATES, &why), error};
    nib_mapping_close(mapping);
    if (reader.root == NULL)
        return nib_fail_at(error, NIB_ESYNTAX, path, why.line, "is no JSON: %s", nib_printable(why.text, buffer));
    struct nib_stack_config config = {0};
    if (json_is_object(reader.root))
        status = read_all(&reader, &config);
    else
        status =
            nib_fail_at(error, NIB_ESYNTAX, path, 0, "is JSON, but no object; expected the config.json of a model");
    json_decref(reader.root);
    if (status == NIB_OK) *out = config;
    return status;
}

enum nib_status nib_model_config_find(const char *model, char **out, struct nib_error *error) {
    struct stat about;
    size_t size = strlen(model) + sizeof "/config.json.config.json";
    char *path = nib_alloc(size, 1, "path of config.json", error);
    if (path == NULL) return NIB_ENOMEM;
    if (stat(model, &about) == 0 && S_ISDIR(about.st_mode)) {
        snprintf(path, size, "%s/config.json", model);
    } else {
        const char *slash = strrchr(model, '/'), *end = strstr(slash == NULL ? model : slash, ".safetensors");
        int stem = end == NULL ? (int)strlen(model) : (int)(end - model),
            folder = slash == NULL ? 0 : (int)(slash - model) + 1;
        snprintf(path, size, "%.*s.config.json", stem, model);
        if (stat(path, &about) != 0) snprintf(path, size, "%.*sconfig.json", folder, model);
    }
    if (stat(path, &about) != 0) {
        enum nib_status status =
            stat(model, &about) != 0
                ? nib_fail_at(error, NIB_EIO, model, 0, "cannot open: %s", strerror(errno))
            : !S_ISDIR(about.st_mode)
                ? nib_fail_at(error, NIB_EIO, model, 0,
                              "neither NAME.config.json nor config.json is beside it; the shapes of a model are there")
                : nib_fail_at(error, NIB_EIO, path, 0, "no such file; the shapes of a model are in its config.json");
        free(path);
        return status;
    }
    *out = path;
    return NIB_OK;
}
