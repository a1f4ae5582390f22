/* Formats that a command takes several of. */
#ifndef NIB_CLI_LISTS_H
#define NIB_CLI_LISTS_H

#include <nibble/quantizer.h>
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

/* By name or path, in this order, each with the same "axis=value" settings. After a failure the list is empty. */
NIB_CHECK enum nib_status nib_quantizers_open(const char *const *names, size_t count, const struct nib_texts *settings,
                                              struct nib_quantizers *out, struct nib_error *error);
void nib_quantizers_close(struct nib_quantizers *list);
NIB_CHECK enum nib_status nib_rotations_open(const char *const *names, size_t count, struct nib_rotations *out,
                                             struct nib_error *error);
void nib_rotations_close(struct nib_rotations *list);

#endif
