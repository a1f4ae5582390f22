/* "did you mean ...?" */
#ifndef NIB_BASE_SUGGEST_H
#define NIB_BASE_SUGGEST_H

#include <stddef.h>

/* The candidate nearest to `word` by edit distance, or NULL when none is near (more than a third of
 * its letters differ). `candidate(i, context)` gives the i-th, NULL past the end. */
const char *nib_suggest(const char *word, const char *(*candidate)(size_t i, const void *context), const void *context);

#endif
