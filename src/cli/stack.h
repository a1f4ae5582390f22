/* What the parts of nibble stack share. */
#ifndef NIB_CLI_STACK_H
#define NIB_CLI_STACK_H

#include "cli/command.h"
#include "job/stack.h"

struct nib_stack_arguments {
    struct nib_texts recipes, show;
    const char *tokens, *unit, *rotation, *plot;
    int64_t sequences, length, repeats, skip;
    int product, precision;
    bool forward_only, quick;
};

/* What a call names, opened. */
struct nib_stack_opened {
    const struct nib_recipe **recipes;
    size_t recipe_count;
    const struct nib_unit *unit;
    const struct nib_rotation *rotation;
    struct nib_stack_input input;
    bool shown[NIB_DEPTH_PARTS];
};

/* On the terminal, as JSON or as TSV. */
NIB_CHECK enum nib_status nib_stack_print(const struct nib_call *call, const struct nib_stack_opened *opened,
                                          const struct nib_stack_report *report, struct nib_error *error);
/* The report into an open result file, and where it comes from, which the caller frees also after a failure. */
NIB_CHECK enum nib_status nib_stack_keep(const struct nib_call *call, const struct nib_stack_opened *opened,
                                         const struct nib_stack_report *report, struct nib_result *file,
                                         struct nib_provenance **out, struct nib_error *error);
/* The folder of --plot, made where it is missing. */
NIB_CHECK enum nib_status nib_stack_figures_folder(const char *path, struct nib_error *error);
/* The figures, into that folder. */
NIB_CHECK enum nib_status nib_stack_draw(const struct nib_call *call, const struct nib_stack_opened *opened,
                                         const struct nib_stack_report *report, struct nib_error *error);

#endif
