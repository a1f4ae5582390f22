/* What every result file says of the call that wrote it. */
#ifndef NIB_CLI_REMEMBER_H
#define NIB_CLI_REMEMBER_H

#include "cli/command.h"
#include "io/provenance.h"

/* Command line, threads and instruction set. `isa` is what --isa says; NULL stands for NIBBLE_ISA or the best. */
NIB_CHECK enum nib_status nib_remember_call(const struct nib_call *call, const char *isa, int ranks,
                                            struct nib_provenance **out, struct nib_error *error);
/* The files behind FILE[:tensor]; NULL and hexadecimal digits are no file. */
NIB_CHECK enum nib_status nib_remember_input(struct nib_provenance *provenance, const char *locator,
                                             struct nib_error *error);

#endif
