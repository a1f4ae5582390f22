/* Which format a word on the command line means. */
#ifndef NIB_CLI_FORMATS_H
#define NIB_CLI_FORMATS_H

#include <nibble/status.h>
#include <stddef.h>

struct nib_format_name {
    char kind[24];  /* "elements" */
    char name[256]; /* a built-in's name, or a path */
};

/* NAME, KIND/NAME or a path (then the file's `kind:` decides). A name that several kinds know must be given as
 * KIND/NAME. `kinds` limits the choice and ends with NULL; NULL allows every kind. */
NIB_CHECK enum nib_status nib_format_find(const char *word, const char *const *kinds, struct nib_format_name *out,
                                          struct nib_error *error);
/* "elements" of "elements" or "element"; NULL when there is no such kind. */
const char *nib_format_kind(const char *word);

#endif
