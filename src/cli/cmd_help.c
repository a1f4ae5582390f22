/* nibble help: the overview, or the help of one command; also as man pages and shell completion. */
#include "cli/help.h"

#include "base/error.h"
#include "cli/pages.h"

struct arguments {
    bool man;
    int completion; /* enum nib_shell, or -1 */
};

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *arguments = call->options;
    struct nib_style style = nib_output_style(call, stdout);
    if (arguments->completion >= 0) {
        if (arguments->man || call->value_count > 0)
            return nib_fail(error, NIB_EINVAL, "help: --completion stands alone: it covers all commands");
        nib_completion((enum nib_shell)arguments->completion, stdout);
        return NIB_OK;
    }
    if (call->value_count == 0) {
        if (arguments->man)
            nib_man_overview(stdout);
        else
            nib_help_overview(stdout, style);
        return NIB_OK;
    }
    struct nib_command command;
    enum nib_status status = nib_command_find(call->values[0], &command, error);
    if (status != NIB_OK) return status;
    if (arguments->man)
        nib_man_command(&command, stdout);
    else
        nib_help_command(&command, stdout, style);
    return NIB_OK;
}

static const struct arguments defaults = {.completion = -1};
static const char *const shells[] = {"bash", "zsh", "fish", NULL};
static const struct nib_option options[] = {
    NIB_OPT_FLAG(struct arguments, man, "man", 0, "print the man page, in roff"),
    NIB_OPT_CHOICE(struct arguments, completion, "completion", 0, "SHELL", shells, "print the completion script"),
    NIB_OPT_END};

static const struct nib_example examples[] = {
    {"nibble help", "all commands"},
    {"nibble help version", "the same as 'nibble version --help'"},
    {"nibble help --man version | man -l -", "the man page of one command"},
    {"source <(nibble help --completion bash)", "completion in this shell; an installed nibble has it already"},
    {NULL, NULL},
};

NIB_COMMAND(help) = {
    .values = "[COMMAND]",
    .most = 1,
    .description = "Lists the commands, or explains one.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .examples = examples,
    .run = run,
};
