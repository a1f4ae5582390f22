/* Tables of result files, read back. */
#ifndef NIB_IO_HDF5_TABLE_H
#define NIB_IO_HDF5_TABLE_H

#include <nibble/table.h>

struct nib_stored_table {
    struct nib_table *table;
    char title[256]; /* of the file */
    int64_t axes;    /* the attribute of that name, of results of experiments: columns 1 to `axes`; otherwise 0 */
    char **strings;  /* that the columns point to */
    size_t string_count;
};

/* The group of one-dimensional datasets over the dimension scale "row", or of arrays over other scales: then a row for every
 * cell, numbered in column 0, the scales the `axes` next ones. `group` NULL: "points", "summary", or the first there is. */
NIB_CHECK enum nib_status nib_stored_table_read(const char *path, const char *group, struct nib_stored_table *out,
                                                struct nib_error *error);
void nib_stored_table_free(struct nib_stored_table *stored);
/* Keeps a text that is on the heap for the life of the table; NULL, and freed, without memory. */
const char *nib_stored_table_keep(struct nib_stored_table *stored, char *text);

#endif
