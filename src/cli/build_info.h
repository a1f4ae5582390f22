/* Facts about this build and this machine. */
#ifndef NIB_CLI_BUILD_INFO_H
#define NIB_CLI_BUILD_INFO_H

#include <stdbool.h>
#include <stddef.h>

/* The i-th fact as name and text; false past the end. */
bool nib_build_info(size_t i, const char **name, const char **value);

#endif
