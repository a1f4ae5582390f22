/* Formats are immutable, so holders share them: each share is closed like an opened format, and the last close frees.
 */
#ifndef NIB_FORMAT_SHARE_H
#define NIB_FORMAT_SHARE_H

#include <nibble/quantizer.h>

const struct nib_element *nib_element_share(const struct nib_element *element);
const struct nib_scale *nib_scale_share(const struct nib_scale *scale);
const struct nib_block *nib_block_share(const struct nib_block *block);

/* A block format that no file describes: one scale per 1 x block_size values, named after its parts, which it shares.
 */
enum nib_status nib_block_of_grid(const struct nib_element *element, const struct nib_scale *scale, unsigned block_size,
                                  const struct nib_block **out, struct nib_error *error);

#endif
