#include "io/text.h"

#include <stdlib.h>
#include <string.h>

const char *nib_printable(const char *text, char buffer[static 80]) {
    size_t i = 0;
    for (; text[i] != '\0' && i < 76; i++) {
        unsigned char letter = (unsigned char)text[i];
        buffer[i] = letter < 0x20 || letter == 0x7f ? '?' : text[i];
    }
    if (text[i] != '\0') {
        while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80) i--; /* do not cut a UTF-8 sequence in two */
        memcpy(buffer + i, "...", 3);
        i += 3;
    }
    buffer[i] = '\0';
    return buffer;
}

/* Length of the valid UTF-8 sequence at `text` (no overlong forms, no surrogates), 0 where there is none. */
static size_t sequence(const unsigned char *text) {
    static const struct {
        unsigned char first, last, low, high;
        size_t length;
    } forms[] = {{0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                 {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                 {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (text[0] < forms[i].first || text[0] > forms[i].last) continue;
        if (forms[i].length > 1 && (text[1] < forms[i].low || text[1] > forms[i].high)) return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if ((text[k] & 0xc0) != 0x80) return 0;
        return forms[i].length;
    }
    return 0;
}

bool nib_is_utf8(const char *text) {
    size_t i = 0, length;
    while (text[i] != '\0' && (length = sequence((const unsigned char *)text + i)) > 0) i += length;
    return text[i] == '\0';
}

const char *nib_utf8(const char *text, char **owned) {
    if (nib_is_utf8(text)) return text;
    size_t i = 0, length;
    char *copy = strdup(text);
    if (copy == NULL) return NULL;
    while (copy[i] != '\0') {
        length = sequence((const unsigned char *)copy + i);
        if (length == 0) {
            copy[i] = '?';
            length = 1;
        }
        i += length;
    }
    *owned = copy;
    return copy;
}

char *nib_text_clean(const char *text) {
    char *owned = NULL;
    const char *valid = nib_utf8(text, &owned);
    if (valid == NULL) return NULL;
    char *copy = owned != NULL ? owned : strdup(valid);
    for (size_t i = 0; copy != NULL && copy[i] != '\0'; i++)
        if ((unsigned char)copy[i] < 0x20 || copy[i] == 0x7f) copy[i] = '?';
    return copy;
}
