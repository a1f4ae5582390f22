/* `FILE[:tensor]` as the command line takes it. */
#ifndef NIB_IO_LOCATOR_H
#define NIB_IO_LOCATOR_H

#include <nibble/tensor.h>

struct nib_locator {
    char *path;
    char *tensor;                /* a name or a glob; "" where none was given */
};

/* Splits at the last ':' whose left side is an existing file or folder; a text that as a whole is one has
 * no tensor part. Where nothing exists, the last ':' that no '/' follows. */
enum nib_status nib_locator_parse(const char *text, struct nib_locator *out, struct nib_error *error);
void nib_locator_free(struct nib_locator *locator);

/* Opens the file and selects tensors: those that match the glob, or all of them where none is given (`one`
 * false); or exactly one (`one` true). The caller frees *indices and closes the file. */
enum nib_status nib_locator_open(const char *text, bool one, struct nib_file **file, size_t **indices, size_t *count,
                                 struct nib_error *error);

#endif
