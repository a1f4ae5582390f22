/* Results on stdout, errors on stderr. */
#ifndef NIB_CLI_OUTPUT_H
#define NIB_CLI_OUTPUT_H

#include <nibble/table.h>
#include <stdio.h>

#include "cli/command.h"

/* How a table looks on the terminal. */
struct nib_layout {
    const char *headline; /* a line above the table, in bold on a terminal; NULL for none */
    bool grouped; /* rows are gathered under a line of their own for each run of equal texts in column `group` */
    size_t group;
    const bool *hidden;   /* by column: only in --json, --tsv and files; NULL shows all */
};

/* Prints the table as the call asks: JSON with the schema of the command, TSV, or an aligned table. `layout` may be
 * NULL. */
NIB_CHECK enum nib_status nib_output_table(const struct nib_call *call, const struct nib_table *table,
                                           const struct nib_layout *layout, struct nib_error *error);
/* The aligned table alone. */
void nib_output_aligned(const struct nib_call *call, const struct nib_table *table, const struct nib_layout *layout,
                        FILE *stream);

/* "nibble.COMMAND/1" */
void nib_output_schema(const struct nib_call *call, char out[64]);
/* Begins a JSON object of the command's schema on stdout. */
struct nib_json;
NIB_CHECK enum nib_status nib_output_json(const struct nib_call *call, struct nib_json **out, struct nib_error *error);
/* Adds the object "parameters": the positional arguments as "values", every option of the command that has a value, by
 * default too, and the seed. "-" in a name becomes "_". */
void nib_output_parameters(const struct nib_call *call, struct nib_json *json);

/* Terminal styles; all are "" when the stream is no terminal, under NO_COLOR, or by --color never. */
struct nib_style {
    const char *bold, *dim, *plain;
};
struct nib_style nib_output_style(const struct nib_call *call, FILE *stream);

/* A number for printf, which prints the sign of a NaN unless it has none. */
double nib_output_number(double value);
/* Columns that a text occupies on the terminal. */
int nib_output_width(const char *utf8);

/* "nibble: FILE:LINE: TEXT" on stderr, always one line. */
void nib_output_error(const struct nib_error *error);
/* "nibble: note: TEXT" on stderr, unless --quiet. */
void nib_output_note(const struct nib_call *call, const char *format, ...) NIB_PRINTF(2, 3);

/* What stands where a file is going to be written; afterwards, whether the file took its place: a note says so. */
struct nib_before {
    const char *path;
    bool there;
    unsigned long long device, number;
};
struct nib_before nib_output_before(const char *path);
void nib_output_note_replaced(const struct nib_call *call, const struct nib_before *before);

/* Flushes stdout; a full disk or a closed pipe is NIB_EIO. */
NIB_CHECK enum nib_status nib_output_flush(struct nib_error *error);

#endif
