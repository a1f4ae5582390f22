/* Reading back what `nibble quantize` wrote with --json or into HDF5. */
#ifndef NIB_IO_QUANTIZED_IN_H
#define NIB_IO_QUANTIZED_IN_H

#include <nibble/quantize.h>

/* Allocates codes and scales of `out` for the quantizer that the file names and fills them in; *quantizer is opened
 * unless the caller gives one. `path` "-" is the standard input. Errors name the member that is wrong. */
NIB_CHECK enum nib_status nib_quantized_read(const char *path, const struct nib_quantizer **quantizer,
                                             struct nib_quantized *out, struct nib_error *error);

#endif
