/* Tensors from files: .safetensors (single or sharded), .npy; recognised by content, not by name. */
#ifndef NIBBLE_TENSOR_H
#define NIBBLE_TENSOR_H

#include <nibble/view.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nib_file;                 /* an open file or sharded set, mapped read-only */

struct nib_tensor_info {
    const char *name;            /* "" for the one array of a .npy file */
    const char *dtype;           /* as the file calls it: "BF16", "F32", "<f4" */
    unsigned rank;
    uint64_t shape[8];
    uint64_t bytes;
    const char *path;            /* the file (shard) that holds it */
};

NIB_API NIB_CHECK enum nib_status nib_file_open(const char *path, struct nib_file **out, struct nib_error *error);
NIB_API void nib_file_close(struct nib_file *file);
NIB_API size_t nib_file_count(const struct nib_file *file);
/* Empty texts and zeros past the last. */
NIB_API void nib_file_tensor(const struct nib_file *file, size_t i, struct nib_tensor_info *out);
/* Index of a tensor by exact name; NIB_ENOTFOUND suggests the nearest. An empty name means the only one. */
NIB_API NIB_CHECK enum nib_status nib_file_find(const struct nib_file *file, const char *name, size_t *out,
                                                struct nib_error *error);
/* Indices whose name matches a glob (*, ?, [..]; '*' also matches '.'), in file order; the caller frees.
 * NIB_ENOTFOUND when nothing matches. */
NIB_API NIB_CHECK enum nib_status nib_file_match(const struct nib_file *file, const char *glob, size_t **indices,
                                                 size_t *count, struct nib_error *error);
/* The tensor as a matrix: the last dimension is cols, the others fold into rows (a vector is one row).
 * Valid until the file closes. F64 needs `cast_f64` (then a binary32 copy owned by the file, RNE);
 * other dtypes are NIB_EINVAL. fortran_order .npy is copied into row-major order. */
NIB_API NIB_CHECK enum nib_status nib_file_view(struct nib_file *file, size_t i, bool cast_f64, struct nib_view *out,
                                                struct nib_error *error);
/* Raw bytes of a tensor, any dtype. */
NIB_API NIB_CHECK enum nib_status nib_file_bytes(struct nib_file *file, size_t i, const void **data, uint64_t *bytes,
                                                 struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
