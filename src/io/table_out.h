/* Result tables as text for machines. Write errors stay in the stream. */
#ifndef NIB_IO_TABLE_OUT_H
#define NIB_IO_TABLE_OUT_H

#include <nibble/table.h>
#include <stdio.h>

/* {"schema": "nibble.COMMAND/1", "rows": [...]} */
NIB_CHECK enum nib_status nib_table_write_json(const struct nib_table *table, const char *schema, FILE *stream,
                                               struct nib_error *error);
/* One header line of column names that begins with '#', then one line per row; tabs, line ends and backslashes in texts
 * are written \t, \n, \r and \\. */
NIB_CHECK enum nib_status nib_table_write_tsv(const struct nib_table *table, FILE *stream, struct nib_error *error);

#endif
