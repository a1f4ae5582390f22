/* A small decoder with random weights in binary64, and random arrays. */
#ifndef NIB_RANDOM_MODEL_H
#define NIB_RANDOM_MODEL_H

#include "nib_test.h"

#include "stack/stack.h"

/* Uniform in [-1, 1), by a linear congruence. */
static inline double nib_uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 11) * 0x1p-52 - 1;
}

static inline double *nib_uniform_array(uint64_t *state, size_t count) {
    double *values = malloc((count + 1) * sizeof *values);
    if (values == NULL) abort();
    for (size_t i = 0; i < count; i++) values[i] = nib_uniform(state);
    return values;
}

struct nib_random_model {
    const struct nib_stack *stack;
    double **weights;
    size_t count;
};

/* Norm gains near 1, everything else of a size that keeps the branches as large as the stream. */
static inline struct nib_random_model nib_random_model(const struct nib_stack_config *config, uint64_t seed) {
    struct nib_random_model model = {.count = 2 + NIB_PARTS * (size_t)config->layers + (config->tied ? 0 : 1)};
    struct nib_error error;
    model.weights = calloc(model.count, sizeof *model.weights);
    if (model.weights == NULL) abort();
    /* Twice: the shapes come from the model. */
    if (nib_stack_of_values(config, (const double *const *)model.weights, &model.stack, &error) != NIB_OK) abort();
    for (size_t i = 0; i < model.count; i++) {
        size_t rows, cols;
        nib_stack_weight_shape(model.stack, i, &rows, &cols);
        bool norm = strstr(nib_stack_weight_name(model.stack, i), "norm.weight") != NULL;
        model.weights[i] = nib_uniform_array(&seed, rows * cols);
        for (size_t j = 0; j < rows * cols; j++)
            model.weights[i][j] = norm ? 1 + 0.3 * model.weights[i][j] : 0.7 * model.weights[i][j];
    }
    nib_stack_close(model.stack);
    if (nib_stack_of_values(config, (const double *const *)model.weights, &model.stack, &error) != NIB_OK) abort();
    return model;
}

static inline void nib_random_model_free(struct nib_random_model *model) {
    for (size_t i = 0; i < model->count; i++) free(model->weights[i]);
    free(model->weights);
    nib_stack_close(model->stack);
}

static inline uint32_t *nib_random_tokens(uint64_t *state, unsigned vocabulary, size_t count) {
    uint32_t *ids = malloc(count * sizeof *ids);
    if (ids == NULL) abort();
    for (size_t i = 0; i < count; i++) ids[i] = (uint32_t)((nib_uniform(state) + 1) / 2 * vocabulary) % vocabulary;
    return ids;
}

#endif
