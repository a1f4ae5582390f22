/* A text written whole or not at all. */
#ifndef NIB_BASE_TEXT_FILE_H
#define NIB_BASE_TEXT_FILE_H

#include <nibble/status.h>

/* Beside the target first, then renamed; a file that is there is replaced, and stays as it was on failure. */
NIB_CHECK enum nib_status nib_text_file_write(const char *path, const char *text, struct nib_error *error);

#endif
