/* A quantized matrix on the terminal, as JSON, TSV and HDF5. */
#ifndef NIB_CLI_QUANTIZED_OUTPUT_H
#define NIB_CLI_QUANTIZED_OUTPUT_H

#include <nibble/quantize.h>

#include "cli/command.h"
#include "io/hdf5_out.h"

NIB_CHECK enum nib_status nib_quantized_print(const struct nib_call *call, const struct nib_quantizer *quantizer,
                                              const struct nib_quantized *quantized, struct nib_error *error);
/* Into a result file that is open. */
NIB_CHECK enum nib_status nib_quantized_store(struct nib_result *file, const struct nib_quantizer *quantizer,
                                              const struct nib_quantized *quantized, struct nib_error *error);

#endif
