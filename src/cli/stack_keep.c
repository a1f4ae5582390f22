/* The result of nibble stack as a file and as figures. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/output.h"
#include "cli/remember.h"
#include "cli/signals.h"
#include "cli/stack.h"
#include "job/cite.h"
#include "plot/figure.h"

enum nib_status nib_stack_keep(const struct nib_call *call, const struct nib_stack_opened *o,
                               const struct nib_stack_report *report, struct nib_result *file,
                               struct nib_provenance **out, struct nib_error *error) {
    const struct nib_stack_arguments *a = call->options;
    enum nib_status status = nib_stack_store(report, o->recipes, file, error);
    if (status == NIB_OK) status = nib_remember_call(call, NULL, 1, out, error);
    if (status != NIB_OK) return status;
    nib_provenance_add_seed(*out, "first seed", (uint64_t)call->common.seed);
    for (size_t i = 0; i < o->recipe_count; i++) nib_cite_recipe(*out, o->recipes[i]);
    if (o->unit != NULL) nib_cite_unit(*out, o->unit);
    return nib_stack_input_cite(&o->input, a->tokens, *out, error);
}

enum nib_status nib_stack_figures_folder(const char *path, struct nib_error *error) {
    struct stat about;
    bool there = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    if (there ? access(path, W_OK | X_OK) == 0 : mkdir(path, 0777) == 0) return NIB_OK;
    return nib_fail_at(error, NIB_EIO, path, 0, there ? "cannot write figures there: %s" : "cannot make the folder of the figures: %s",
                       strerror(errno));
}

enum nib_status nib_stack_draw(const struct nib_call *call, const struct nib_stack_opened *o,
                               const struct nib_stack_report *report, struct nib_error *error) {
    const struct nib_stack_arguments *a = call->options;
    struct nib_table *table = NULL;
    enum nib_status status = nib_stack_table(report, o->recipes, NIB_DEPTH_PARTS, &table, error);
    char title[200];
    if (o->rotation != NULL)
        snprintf(title, sizeof title, "Change of SQNR by rotation: the recipe's own, %.60s where it has none",
                 nib_rotation_name(o->rotation));
    else
        snprintf(title, sizeof title, "Change of SQNR by the recipe's own rotation");
    static const char *const names[] = {"stack-depth", "stack-gemms", "stack-operands"};
    for (size_t i = 0; status == NIB_OK && i < sizeof names / sizeof *names; i++) {
        char prefix[4000];
        if (i > 0 && a->quick) break;
        snprintf(prefix, sizeof prefix, "%.3900s/%s", a->plot, names[i]);
        nib_signals_guard_figure(prefix);
        status =
            i == 0 ? nib_plot_chain(table, "Residual stream and its gradient; dashed: product of alphas", prefix, error)
            : i == 1 ? nib_plot_stack_gemms(table, title, prefix, error)
                     : nib_plot_stack_operands(table, prefix, error);
        if (status == NIB_EINVAL) { /* a figure for which these results have no numbers */
            nib_output_note(call, "%s is not drawn: %s", names[i], error->text);
            status = NIB_OK;
        }
    }
    nib_table_free(table);
    return status;
}
