/* Man pages and shell completion, written from the command and option tables. */
#ifndef NIB_CLI_PAGES_H
#define NIB_CLI_PAGES_H

#include <stdio.h>

#include "cli/command.h"

/* nibble.1 */
void nib_man_overview(FILE *stream);
/* nibble-COMMAND.1 */
void nib_man_command(const struct nib_command *command, FILE *stream);

enum nib_shell { NIB_BASH, NIB_ZSH, NIB_FISH };
void nib_completion(enum nib_shell shell, FILE *stream);

/* What the name of an argument ("FILE") stands for. */
enum nib_completes { NIB_COMPLETES_NOTHING, NIB_COMPLETES_FILES, NIB_COMPLETES_NAMES, NIB_COMPLETES_COMMANDS };
/* For NAMES, `kind` becomes the kind as `nibble list` calls it ("quantizers"; "" for all). */
enum nib_completes nib_argument_completes(const char *argument, const char **kind);
/* The option table in one order: own options, then the shared ones; NULL past the end. */
const struct nib_option *nib_option_any(const struct nib_command *command, size_t i, bool *shared);

#endif
