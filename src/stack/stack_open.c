/* Which tensors a model must have, and whether a file has just those. */
#include "stack/stack.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const part_names[NIB_PARTS] = {"input_layernorm",  "self_attn.q_proj", "self_attn.k_proj",
                                                  "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm",
                                                  "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

enum nib_status nib_stack_config_check(const struct nib_stack_config *config, struct nib_error *error) {
    enum { MOST = 1 << 24, MOST_LAYERS = 4096 }; /* so that no product of three overflows */
    const struct {
        const char *name;
        unsigned value, most;
    } sizes[] = {{"vocab_size", config->vocabulary, MOST},
                 {"hidden_size", config->hidden, MOST},
                 {"intermediate_size", config->intermediate, MOST},
                 {"num_hidden_layers", config->layers, MOST_LAYERS},
                 {"num_attention_heads", config->heads, MOST_LAYERS},
                 {"num_key_value_heads", config->kv_heads, MOST_LAYERS},
                 {"head_dim", config->head_size, MOST_LAYERS},
                 {"max_position_embeddings", config->positions, MOST}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
            return nib_fail(error, NIB_EINCONSISTENT, "%s is %u; expected 1 to %u", sizes[i].name, sizes[i].value,
                            sizes[i].most);
    if (config->heads % config->kv_heads != 0)
        return nib_fail(error, NIB_EINCONSISTENT,
                        "num_key_value_heads is %u, which does not divide the %u heads of "
                        "num_attention_heads",
                        config->kv_heads, config->heads);
    if (config->head_size % 2 != 0)
        return nib_fail(error, NIB_EINCONSISTENT, "head_dim is %u; rotary positions need an even number",
                        config->head_size);
    if (!(config->norm_epsilon >= 0 && config->norm_epsilon < 1))
        return nib_fail(error, NIB_EINCONSISTENT, "rms_norm_eps is %g; expected at least 0 and less than 1",
                        config->norm_epsilon);
    if (!(config->rope_theta > 0 && config->rope_theta < 1e300))
        return nib_fail(error, NIB_EINCONSISTENT, "rope_theta is %g; expected a positive number", config->rope_theta);
    return NIB_OK;
}

/* rows 0: a vector. */
static void plan_weight(struct nib_stack *stack, const char *name, size_t rows, size_t cols) {
    struct nib_stack_weight *weight = &stack->weights[stack->count++];
    snprintf(weight->name, sizeof weight->name, "%s", name);
    weight->is_vector = rows == 0;
    weight->rows = rows == 0 ? 1 : rows;
    weight->cols = cols;
}

static void plan_layer(struct nib_stack *stack, unsigned layer) {
    const struct nib_stack_config *c = &stack->config;
    size_t hidden = c->hidden, wide = (size_t)c->heads * c->head_size, kv = (size_t)c->kv_heads * c->head_size;
    const size_t shapes[NIB_PARTS][2] = {{0, hidden},
                                         {wide, hidden},
                                         {kv, hidden},
                                         {kv, hidden},
                                         {hidden, wide},
                                         {0, hidden},
                                         {c->intermediate, hidden},
                                         {c->intermediate, hidden},
                                         {hidden, c->intermediate}};
    for (int part = 0; part < NIB_PARTS; part++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%u.%s.weight", layer, part_names[part]);
        plan_weight(stack, name, shapes[part][0], shapes[part][1]);
    }
}

/* The names and shapes of all weights. */
static enum nib_status plan(const struct nib_stack_config *config, struct nib_stack **out, struct nib_error *error) {
    enum nib_status status = nib_stack_config_check(config, error);
    if (status != NIB_OK) return status;
    size_t most = 3 + NIB_PARTS * (size_t)config->layers;
    struct nib_stack *stack =
        nib_alloc(1, sizeof *stack + most * sizeof *stack->weights, "names of the weights", error);
    if (stack == NULL) return NIB_ENOMEM;
    stack->config = *config;
    plan_weight(stack, "model.embed_tokens.weight", config->vocabulary, config->hidden);
    for (unsigned layer = 0; layer < config->layers; layer++) plan_layer(stack, layer);
    plan_weight(stack, "model.norm.weight", 0, config->hidden);
    if (!config->tied) plan_weight(stack, "lm_head.weight", config->vocabulary, config->hidden);
    *out = stack;
    return NIB_OK;
}

/* Old checkpoints carry the frequencies of the rotary positions, which follow from the configuration. */
static bool is_frequency(const char *name) {
    const char *end = "self_attn.rotary_emb.inv_freq";
    size_t length = strlen(name), tail = strlen(end);
    return strncmp(name, "model.layers.", 13) == 0 && length > tail && strcmp(name + length - tail, end) == 0;
}

static void shape_text(const struct nib_tensor_info *info, char out[static 96]) {
    size_t used = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < info->rank && used < 90; i++)
        used +=
            (size_t)snprintf(out + used, 96 - used, "%s%llu", i == 0 ? "" : "x", (unsigned long long)info->shape[i]);
    if (info->rank == 0) strcpy(out, "a scalar");
}

static enum nib_status take(struct nib_stack_weight *weight, struct nib_file *file, size_t i, struct nib_error *error) {
    struct nib_tensor_info info;
    nib_file_tensor(file, i, &info);
    bool fits = weight->is_vector ? info.rank == 1 && info.shape[0] == weight->cols
                                  : info.rank == 2 && info.shape[0] == weight->rows && info.shape[1] == weight->cols;
    if (!fits) {
        char shape[96], wanted[48];
        shape_text(&info, shape);
        if (weight->is_vector)
            snprintf(wanted, sizeof wanted, "%zu", weight->cols);
        else
            snprintf(wanted, sizeof wanted, "%zux%zu", weight->rows, weight->cols);
        return nib_fail_at(error, NIB_EINCONSISTENT, info.path, 0, "tensor \"%s\" is %s; the configuration wants %s",
                           weight->name, shape, wanted);
    }
    if (strcmp(info.dtype, "F64") == 0) {
        uint64_t bytes;
        return nib_file_bytes(file, i, &weight->f64, &bytes, error);
    }
    return nib_file_view(file, i, false, &weight->view, error);
}

struct known {
    const char *name;
    size_t number;
};

static int by_name(const void *left, const void *right) {
    return strcmp(((const struct known *)left)->name, ((const struct known *)right)->name);
}

static enum nib_status refuse_extra(const struct nib_stack *stack, const struct nib_tensor_info *info,
                                    struct nib_error *error) {
    if (stack->config.tied && strcmp(info->name, "lm_head.weight") == 0)
        return nib_fail_at(
            error, NIB_EINCONSISTENT, info->path, 0,
            "has a tensor \"lm_head.weight\", but tie_word_embeddings says that the head is the embedding");
    return nib_fail_at(error, NIB_EINCONSISTENT, info->path, 0,
                       "tensor \"%.200s\" is no weight of a LLaMA-style decoder of %u layers", info->name,
                       stack->config.layers);
}

static enum nib_status match(struct nib_stack *stack, struct nib_file *file, struct known *known, bool *taken,
                             struct nib_error *error) {
    for (size_t i = 0; i < stack->count; i++) known[i] = (struct known){stack->weights[i].name, i};
    qsort(known, stack->count, sizeof *known, by_name);
    const char *path = "";
    for (size_t i = 0; i < nib_file_count(file); i++) {
        struct nib_tensor_info info;
        nib_file_tensor(file, i, &info);
        path = info.path;
        if (is_frequency(info.name)) continue;
        const struct known *found = bsearch(&(struct known){info.name, 0}, known, stack->count, sizeof *known, by_name);
        if (found == NULL) return refuse_extra(stack, &info, error);
        enum nib_status status = take(&stack->weights[found->number], file, i, error);
        if (status != NIB_OK) return status;
        taken[found->number] = true;
    }
    for (size_t i = 0; i < stack->count; i++)
        if (!taken[i])
            return nib_fail_at(error, NIB_EINCONSISTENT, path, 0, "has no tensor \"%s\"", stack->weights[i].name);
    return NIB_OK;
}

enum nib_status nib_stack_open(const struct nib_stack_config *config, struct nib_file *file,
                               const struct nib_stack **out, struct nib_error *error) {
    struct nib_stack *stack;
    enum nib_status status = plan(config, &stack, error);
    if (status != NIB_OK) return status;
    struct known *known = nib_alloc(stack->count, sizeof *known, "names of the weights", error);
    bool *taken = nib_alloc(stack->count, sizeof *taken, "names of the weights", error);
    status = known == NULL || taken == NULL ? NIB_ENOMEM : match(stack, file, known, taken, error);
    free(known);
    free(taken);
    if (status != NIB_OK) {
        free(stack);
        return status;
    }
    *out = stack;
    return NIB_OK;
}

enum nib_status nib_stack_of_values(const struct nib_stack_config *config, const double *const *values,
                                    const struct nib_stack **out, struct nib_error *error) {
    struct nib_stack *stack;
    enum nib_status status = plan(config, &stack, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < stack->count; i++) stack->weights[i].f64 = values[i];
    *out = stack;
    return NIB_OK;
}

void nib_stack_close(const struct nib_stack *stack) {
    free((void *)(uintptr_t)stack);
}
const struct nib_stack_config *nib_stack_config_of(const struct nib_stack *stack) {
    return &stack->config;
}
size_t nib_stack_weights(const struct nib_stack *stack) {
    return stack->count;
}
const char *nib_stack_weight_name(const struct nib_stack *stack, size_t i) {
    return stack->weights[i].name;
}

void nib_stack_weight_shape(const struct nib_stack *stack, size_t i, size_t *rows, size_t *cols) {
    *rows = stack->weights[i].rows;
    *cols = stack->weights[i].cols;
}
