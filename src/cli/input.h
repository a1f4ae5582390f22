/* A matrix from the command line: FILE[:tensor], or --values with --shape. */
#ifndef NIB_CLI_INPUT_H
#define NIB_CLI_INPUT_H

#include <nibble/tensor.h>

#include "cli/options.h"
#include <nibble/quantizer.h>

struct nib_input {
    struct nib_view view;
    struct nib_file *file; /* NULL for --values */
    float *values;
    char name[256]; /* of the tensor, "" for --values */
};

/* `locator` NULL: the values. `shape` NULL: one row. */
NIB_CHECK enum nib_status nib_input_open(const char *locator, const struct nib_texts *values, const char *shape,
                                         bool cast_f64, struct nib_input *out, struct nib_error *error);
void nib_input_close(struct nib_input *input);

/* "2x32" */
NIB_CHECK enum nib_status nib_input_shape(const char *text, size_t *rows, size_t *cols, struct nib_error *error);
/* "3,17": a place in the tensor. */
NIB_CHECK enum nib_status nib_input_place(const char *text, size_t *row, size_t *col, struct nib_error *error);
/* A decimal or hexadecimal number, nan, inf, -inf, or the bits of one as 0x and eight digits. */
NIB_CHECK enum nib_status nib_input_number(const char *text, float *out, struct nib_error *error);
/* Bytes of a tensor, of a whole file where FILE:raw is given, or hexadecimal digits after 0x; the caller frees *out. */
NIB_CHECK enum nib_status nib_input_bytes(const char *text, const char *option, uint8_t **out, size_t *count,
                                          struct nib_error *error);
/* A quantizer by name or path, with axes changed by "axis=value" settings. */
NIB_CHECK enum nib_status nib_input_quantizer(const char *name, const struct nib_texts *settings,
                                              const struct nib_quantizer **out, struct nib_error *error);

/* The choices of --cast: "none", then "fp32". */
extern const char *const nib_casts[];

#endif
