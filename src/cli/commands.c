#include "cli/command.h"

#include <string.h>

#include "base/error.h"
#include "base/suggest.h"

#define COMMAND(name, group, summary) extern const struct nib_command nib_command_##name;
#include "cli/commands.def"
#undef COMMAND

struct row {
    const struct nib_command *command;
    const char *name, *group, *summary;
};

static const struct row rows[] = {
#define COMMAND(name, group, summary) {&nib_command_##name, #name, group, summary},
#include "cli/commands.def"
#undef COMMAND
};

bool nib_command_at(size_t i, struct nib_command *out) {
    if (i >= sizeof rows / sizeof *rows) return false;
    *out = *rows[i].command;
    out->name = rows[i].name;
    out->group = rows[i].group;
    out->summary = rows[i].summary;
    return true;
}

static const char *name_at(size_t i, const void *context) {
    (void)context;
    return i < sizeof rows / sizeof *rows ? rows[i].name : NULL;
}

enum nib_status nib_command_find(const char *name, struct nib_command *out, struct nib_error *error) {
    for (size_t i = 0; nib_command_at(i, out); i++)
        if (strcmp(out->name, name) == 0) return NIB_OK;
    const char *near = nib_suggest(name, name_at, NULL);
    if (near != NULL)
        return nib_fail(error, NIB_EINVAL, "unknown command \"%s\"; did you mean \"%s\"?", name, near);
    return nib_fail(error, NIB_EINVAL, "unknown command \"%s\"; 'nibble help' lists the commands", name);
}
