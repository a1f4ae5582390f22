/* Interruption and temporary files. */
#ifndef NIB_CLI_SIGNALS_H
#define NIB_CLI_SIGNALS_H

#include <stdbool.h>

/* SIGINT and SIGTERM remove the guarded files and end the program with 130 (143); SIGPIPE and SIGXFSZ become write
 * errors. */
void nib_signals_install(void);
/* Guards what a call with -o PATH writes before it renames: PATH.PID.0.part (src/io/hdf5_commit.c). */
void nib_signals_guard_output(const char *path);
/* Whether a progress bar stands on the terminal, to be erased on interruption. */
void nib_signals_bar(bool visible);
/* What an interruption says on stderr, at most 500 characters; "" for nothing. */
void nib_signals_last_words(const char *line);
/* Guards a file that is removed on interruption; at most 32 at a time. The path is copied. */
void nib_signals_guard(const char *path);
/* What a figure PREFIX is written to before it is renamed. */
void nib_signals_guard_figure(const char *prefix);

#endif
