/* Texts from files that nobody vouches for: names with control characters, bytes that are no UTF-8. */
#ifndef NIB_IO_TEXT_H
#define NIB_IO_TEXT_H

#include <stdbool.h>

/* `text` with control characters as '?', so that an error stays one line; cut to fit. */
const char *nib_printable(const char *text, char buffer[static 80]);
/* Whether it is valid UTF-8 throughout. */
bool nib_is_utf8(const char *text);
/* `text` itself where it is valid UTF-8, otherwise a copy in *owned with the offending bytes as '?'; NULL when out of
 * memory. The caller frees *owned. */
const char *nib_utf8(const char *text, char **owned);
/* A copy of any length with control characters and bytes that are no UTF-8 as '?'; NULL when out of memory. */
char *nib_text_clean(const char *text);

#endif
