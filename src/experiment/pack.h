/* The kept columns of a point's table as bytes: what journals hold and ranks send, and what digests are taken of. */
#ifndef NIB_EXPERIMENT_PACK_H
#define NIB_EXPERIMENT_PACK_H

#include <nibble/table.h>

/* Rows, then each row's cells in the order of `columns`: integers and reals as 8 little-endian bytes, texts as a length
 * of 4 bytes and the letters. The caller frees *bytes. */
NIB_CHECK enum nib_status nib_pack(const struct nib_table *table, const size_t *columns, size_t count, uint8_t **bytes,
                                   size_t *size, struct nib_error *error);
/* Rows of a packed table; false when the bytes are not one with these columns. */
bool nib_pack_rows(const uint8_t *bytes, size_t size, const struct nib_column *columns, size_t count, size_t *rows);
/* Appends the rows to `table`, whose columns from `first` on are the packed ones; calls `prepare` for each new row. */
typedef void nib_pack_prepare(void *context, struct nib_table *table, size_t row);
NIB_CHECK enum nib_status nib_unpack(const uint8_t *bytes, size_t size, struct nib_table *table, size_t first,
                                     nib_pack_prepare *prepare, void *context, struct nib_error *error);

#endif
