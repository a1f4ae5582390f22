/* Help texts, written from the command and option tables. */
#ifndef NIB_CLI_HELP_H
#define NIB_CLI_HELP_H

#include <stdio.h>

#include "cli/command.h"
#include "cli/output.h"

/* All commands by group. */
void nib_help_overview(FILE *stream, struct nib_style style);
/* One command: synopsis, description, options, examples. */
void nib_help_command(const struct nib_command *command, FILE *stream, struct nib_style style);
/* The same as one line: "nibble round [options] VALUE..." */
void nib_help_synopsis(const struct nib_command *command, char *out, size_t size);
/* "16" where an option has an initial value worth telling, else "". */
void nib_help_default(const struct nib_command *command, const struct nib_option *option, bool shared, char *out,
                      size_t size);

#endif
