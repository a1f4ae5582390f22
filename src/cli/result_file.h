/* The result file of a call: opened, and at the end written or dropped. */
#ifndef NIB_CLI_RESULT_FILE_H
#define NIB_CLI_RESULT_FILE_H

#include "cli/command.h"
#include "io/hdf5_out.h"

/* What -o names; without it NULL. Comes before the work, so that an unwritable folder costs no time. */
NIB_CHECK enum nib_status nib_result_file_open(const struct nib_call *call, const char *title, struct nib_result **out,
                                               struct nib_error *error);
/* Writes `file` where `status` says that all went well, and otherwise drops it; frees both, each of which may be NULL.
 * Gives `status`, or why the file cannot be written. */
NIB_CHECK enum nib_status nib_result_file_end(enum nib_status status, struct nib_result *file,
                                              struct nib_provenance *provenance, struct nib_error *error);

#endif
