/* nibble COMMAND [options]: finds the command, parses its options, runs it, reports. */
#include <nibble/version.h>
#include <string.h>

#include "cli/help.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "io/hdf5_out.h"

static enum nib_status run_command(struct nib_call *call, const struct nib_command *command, int count, char **words,
                                   struct nib_error *error) {
    enum nib_status status = nib_options_parse(command, count, words, call, error);
    if (status != NIB_OK) return status;
    if (call->common.help) {
        nib_help_command(command, stdout, nib_output_style(call, stdout));
    } else if (call->common.output != NULL) {
        struct nib_before before = nib_output_before(call->common.output);
        nib_signals_guard_output(call->common.output);
        status = command->run(call, error);
        nib_output_note_replaced(call, &before);
    } else {
        status = command->run(call, error);
    }
    nib_options_free(call);
    return status;
}

static enum nib_status dispatch(struct nib_call *call, int argc, char **argv, struct nib_error *error) {
    const char *word = argc > 1 ? argv[1] : "--help";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = "version";
    struct nib_command command;
    enum nib_status status = nib_command_find(word, &command, error);
    if (status != NIB_OK) return status;
    return run_command(call, &command, argc > 2 ? argc - 2 : 0, argv + 2, error);
}

int main(int argc, char **argv) {
    struct nib_error error = {0};
    struct nib_call call = {.argc = argc, .argv = argv};
    nib_signals_install();
    nib_hdf5_quiet_exit();
    enum nib_status status = dispatch(&call, argc, argv, &error);
    if (status != NIB_OK) {
        fflush(stdout);
        nib_output_error(&error);
        return nib_status_exit_code(status);
    }
    if (nib_output_flush(&error) != NIB_OK) {
        nib_output_error(&error);
        return nib_status_exit_code(NIB_EIO);
    }
    return call.check_failed ? 1 : 0;
}
