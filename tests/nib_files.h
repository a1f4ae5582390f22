/* Files that a test makes for itself, in a temporary folder that goes away with it. */
#ifndef NIB_FILES_H
#define NIB_FILES_H

#include "nib_test.h"

#include <dirent.h>
#include <nibble/status.h>
#include <sys/stat.h>
#include <unistd.h>

static char nib_folder[64];

/* The path of `name` in the temporary folder; valid for the next seven calls. */
static inline const char *nib_temporary(const char *name) {
    static char paths[8][512];
    static unsigned turn;
    if (nib_folder[0] == '\0') {
        strcpy(nib_folder, "/tmp/nibble-test-XXXXXX");
        if (mkdtemp(nib_folder) == NULL) abort();
    }
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", nib_folder, name);
    return path;
}

static inline const char *nib_write(const char *name, const void *bytes, size_t size) {
    const char *path = nib_temporary(name);
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(bytes, 1, size, stream) != size || fclose(stream) != 0) abort();
    return path;
}

/* Removes the folder with the files in it; returns how many files there were. */
static inline unsigned nib_remove_folder(void) {
    unsigned count = 0;
    if (nib_folder[0] == '\0') return 0;
    DIR *folder = opendir(nib_folder);
    if (folder == NULL) return 0;
    for (struct dirent *item = readdir(folder); item != NULL; item = readdir(folder)) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        remove(nib_temporary(item->d_name));
        count++;
    }
    closedir(folder);
    rmdir(nib_folder);
    nib_folder[0] = '\0';
    return count;
}

/* The call fails with this status, and the error has `part` in its one line and names `file` (unless NULL). */
static inline void nib_expect_error(enum nib_status status, enum nib_status wanted, const struct nib_error *error,
                                    const char *file, const char *part, const char *where) {
    NIB_CHECKF(status == wanted, "%s: got %s (%s), expected %s", where, nib_status_name(status), error->text,
               nib_status_name(wanted));
    if (status == NIB_OK) return;
    NIB_CHECKF(error->status == wanted, "%s: error carries %s", where, nib_status_name(error->status));
    NIB_CHECKF(strstr(error->text, part) != NULL, "%s: \"%s\" does not say \"%s\"", where, error->text, part);
    NIB_CHECKF(strchr(error->text, '\n') == NULL, "%s: more than one line", where);
    if (file != NULL) NIB_CHECKF(strstr(error->file, file) != NULL, "%s: names \"%s\"", where, error->file);
}

#endif
