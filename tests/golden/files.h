/* The files of a golden directory. */
#ifndef NIB_GOLDEN_FILES_H
#define NIB_GOLDEN_FILES_H

#include "golden/row.h"

enum { FILES_MOST = 128 };

struct files {
    char *name[FILES_MOST];
    size_t count;
};

/* Those of the row, by name. */
void files_list(const struct row *row, const char *tree, struct files *out);
void files_free(struct files *files);

#endif
