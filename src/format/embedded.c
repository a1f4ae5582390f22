#include "format/embedded.h"

#include <string.h>

const struct nib_embedded *nib_embedded_find(const char *kind, const char *name) {
    for (size_t i = 0; i < nib_embedded_count; i++)
        if (strcmp(nib_embedded_formats[i].kind, kind) == 0 && strcmp(nib_embedded_formats[i].name, name) == 0)
            return &nib_embedded_formats[i];
    return NULL;
}
