#include "base/suggest.h"

#include <string.h>

enum { LONGEST = 128 };

static size_t edit_distance(const char *a, const char *b) {
    size_t row[LONGEST + 1];
    size_t length_b = strlen(b);
    for (size_t j = 0; j <= length_b; j++) row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length_b; j++) {
            size_t above = row[j + 1];
            size_t best = diagonal + (a[i] != b[j]);
            if (above + 1 < best) best = above + 1;
            if (row[j] + 1 < best) best = row[j] + 1;
            row[j + 1] = best;
            diagonal = above;
        }
    }
    return row[length_b];
}

const char *nib_suggest(const char *word, const char *(*candidate)(size_t i, const void *context), const void *context) {
    const char *nearest = NULL;
    size_t length = strlen(word), best = (length < 3 ? 3 : length) / 3 + 1;
    if (length > LONGEST) return NULL;
    for (size_t i = 0;; i++) {
        const char *name = candidate(i, context);
        if (name == NULL) return nearest;
        if (strlen(name) > LONGEST) continue;
        size_t distance = edit_distance(word, name);
        if (distance < best) {
            best = distance;
            nearest = name;
        }
    }
}
