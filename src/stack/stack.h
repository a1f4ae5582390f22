/* A model: its configuration and where its weights lie. */
#ifndef NIB_STACK_STACK_H
#define NIB_STACK_STACK_H

#include <nibble/stack.h>

/* The weights of a layer, in their order. The head has the number after the final norm, or the embedding's. */
enum nib_stack_part {
    NIB_PART_INPUT_NORM,
    NIB_PART_Q,
    NIB_PART_K,
    NIB_PART_V,
    NIB_PART_O,
    NIB_PART_POST_NORM,
    NIB_PART_GATE,
    NIB_PART_UP,
    NIB_PART_DOWN,
    NIB_PARTS
};

struct nib_stack_weight {
    char name[64];
    bool is_vector; /* then of one row */
    size_t rows, cols;
    struct nib_view view; /* in the file */
    const void *f64;      /* binary64 values instead: of the file, at any address, or of the caller */
};

struct nib_stack {
    struct nib_stack_config config;
    size_t count;
    struct nib_stack_weight weights[];
};

/* A model whose weights are arrays of the caller, in the order of nib_stack_weights(); they must stay. */
NIB_CHECK enum nib_status nib_stack_of_values(const struct nib_stack_config *config, const double *const *values,
                                              const struct nib_stack **out, struct nib_error *error);
/* Refuses shapes that the decoder cannot have; names the member that is wrong as config.json spells it. */
NIB_CHECK enum nib_status nib_stack_config_check(const struct nib_stack_config *config, struct nib_error *error);

static inline size_t nib_stack_weight_of(size_t layer, enum nib_stack_part part) {
    return 1 + NIB_PARTS * layer + part;
}
static inline size_t nib_stack_final_norm(const struct nib_stack_config *config) {
    return 1 + NIB_PARTS * (size_t)config->layers;
}
static inline size_t nib_stack_head(const struct nib_stack_config *config) {
    return config->tied ? 0 : nib_stack_final_norm(config) + 1;
}

/* All elements of a weight, exactly; binary64 values are rounded to binary32 by the second. */
void nib_stack_weight_f64(const struct nib_stack_weight *weight, int threads, double *out);
void nib_stack_weight_f32(const struct nib_stack_weight *weight, int threads, float *out);
/* How many elements are NaN or infinite. */
size_t nib_stack_weight_nonfinite(const struct nib_stack_weight *weight, int threads);

#endif
