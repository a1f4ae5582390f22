/* Format names and paths. */
#ifndef NIB_BASE_PATH_H
#define NIB_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <nibble/status.h>

/* Whether `name` is meant as a file: it starts with '/' or '.', or ends in ".yaml". */
bool nib_path_is_file(const char *name);
/* Reads a whole text file (at most 1 MiB) into a NUL-terminated buffer that the caller frees. A
 * directory, an empty file or a file with NUL bytes is an error that names it. */
enum nib_status nib_path_read_text(const char *path, char **text, size_t *length, struct nib_error *error);

/* The folder part of a path, "." without one; the caller frees it. */
char *nib_path_folder(const char *path);
/* Before any work: whether a file can be made at `path`. NIB_EIO where a device, a pipe or a folder stands, or in a
 * folder that is not there or takes no files; NIB_EINVAL for an empty name. */
NIB_CHECK enum nib_status nib_path_check_target(const char *path, struct nib_error *error);

#endif
