#include "base/suggest.h"

#include <string.h>

enum { LONGEST = 128 };

/* Names here are in small letters; E2M1 for e2m1 is no mistake to count. */
static char small(char letter) { return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter; }

/* Letters inserted, removed or replaced, and neighbours swapped ("jsno"), each count one. */
static size_t edit_distance(const char *a, const char *b) {
    size_t rows[3][LONGEST + 1];
    size_t length_b = strlen(b), *older = rows[0], *old = rows[1], *now = rows[2];
    for (size_t j = 0; j <= length_b; j++) old[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        now[0] = i + 1;
        for (size_t j = 0; j < length_b; j++) {
            size_t best = old[j] + (small(a[i]) != small(b[j]));
            if (old[j + 1] + 1 < best) best = old[j + 1] + 1;
            if (now[j] + 1 < best) best = now[j] + 1;
            if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] && older[j - 1] + 1 < best)
                best = older[j - 1] + 1;
            now[j + 1] = best;
        }
        size_t *spare = older;
        older = old;
        old = now;
        now = spare;
    }
    return old[length_b];
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
