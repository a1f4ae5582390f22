/* The version of the library. */
#ifndef NIBBLE_VERSION_H
#define NIBBLE_VERSION_H

#include <nibble/export.h>

#ifdef __cplusplus
extern "C" {
#endif

NIB_API const char *nib_version(void); /* "0.1.0" */
NIB_API const char *nib_commit(void);  /* git commit the library was built from, "-dirty" appended, or "unknown" */

#ifdef __cplusplus
}
#endif
#endif
