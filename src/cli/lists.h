/* Formats that a command takes several of. */
#ifndef NIB_CLI_LISTS_H
#define NIB_CLI_LISTS_H

#include <nibble/quantizer.h>
#include <nibble/recipe.h>
#include <nibble/rotate.h>

#include "cli/options.h"

struct nib_quantizers {
    const struct nib_quantizer **item;
    size_t count;
};
struct nib_rotations {
    const struct nib_rotation **item;
    size_t count;
};

/* What is given, or the usual where nothing is. */
struct nib_texts nib_texts_or(const struct nib_texts *given, const char *const *usual, size_t count);

/* Formats of a call keep their own names, but where two names are the same the texts given take their place, so that no
 * two rows or curves are called alike. The same text twice is refused. `names`: own names in, labels out. */
NIB_CHECK enum nib_status nib_labels_part(const char *kind, const char *const *texts, const char **names, size_t count,
                                          struct nib_error *error);
/* Calls a quantizer otherwise than its file; what settings changed stays behind it. */
void nib_quantizer_call(const struct nib_quantizer *quantizer, const char *label);

/* By name or path, in this order, each with the same "axis=value" settings. After a failure the list is empty. */
NIB_CHECK enum nib_status nib_quantizers_open(const char *const *names, size_t count, const struct nib_texts *settings,
                                              struct nib_quantizers *out, struct nib_error *error);
void nib_quantizers_close(struct nib_quantizers *list);
NIB_CHECK enum nib_status nib_rotations_open(const char *const *names, size_t count, struct nib_rotations *out,
                                             struct nib_error *error);
void nib_rotations_close(struct nib_rotations *list);
/* Into an array of `count`; after a failure it holds nothing. */
NIB_CHECK enum nib_status nib_recipes_open(const char *const *names, size_t count, const struct nib_recipe **out,
                                           struct nib_error *error);

#endif
