/* nibble help: the overview, or the help of one command. */
#include "cli/help.h"

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct nib_style style = nib_output_style(call, stdout);
    if (call->value_count == 0) {
        nib_help_overview(stdout, style);
        return NIB_OK;
    }
    struct nib_command command;
    enum nib_status status = nib_command_find(call->values[0], &command, error);
    if (status != NIB_OK) return status;
    nib_help_command(&command, stdout, style);
    return NIB_OK;
}

static const struct nib_example examples[] = {
    {"nibble help", "all commands"},
    {"nibble help version", "the same as 'nibble version --help'"},
    {NULL, NULL},
};

NIB_COMMAND(help) = {
    .values = "[COMMAND]",
    .most = 1,
    .description = "Lists the commands, or explains one.",
    .examples = examples,
    .run = run,
};
