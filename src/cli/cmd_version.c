/* nibble version: what this program is made of, for bug reports and provenance. */
#include <nibble/version.h>
#include <stdio.h>

#include "cli/build_info.h"
#include "cli/output.h"
#include "io/json_out.h"
#include "quantize/isa.h"

/* The facts of the build, then the instruction set of this machine. */
static bool fact(size_t i, const char **name, const char **value) {
    size_t built = 0;
    const struct nib_isa *isa;
    bool reference;
    while (nib_build_info(built, name, value)) built++;
    if (i < built) return nib_build_info(i, name, value);
    *name = "isa";
    *value = "unavailable: see NIBBLE_ISA";
    if (nib_isa_choose(NULL, &isa, &reference, NULL) == NIB_OK) *value = reference ? "ref" : isa->name;
    return i == built;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    if (call->common.tsv) {
        const char *name, *value;
        printf("#name\tvalue\nversion\t%s\ncommit\t%s\n", nib_version(), nib_commit());
        for (size_t i = 0; fact(i, &name, &value); i++) printf("%s\t%s\n", name, value);
        return NIB_OK;
    }
    if (!call->common.json) {
        printf("nibble %s (%s)\n", nib_version(), nib_commit());
        const char *name, *value;
        for (size_t i = 0; fact(i, &name, &value); i++) printf("  %-12s %s\n", name, value);
        return NIB_OK;
    }
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "version", nib_version());
    nib_json_text(json, "commit", nib_commit());
    const char *name, *value;
    for (size_t i = 0; fact(i, &name, &value); i++) nib_json_text(json, name, value);
    nib_json_end(json);
    return NIB_OK;
}

static const struct nib_example examples[] = {
    {"nibble version", "for a bug report"},
    {"nibble version --json", "for a script"},
    {NULL, NULL},
};

NIB_COMMAND(version) = {
    .description = "Prints the version and commit, how the program was compiled, the libraries it runs with, and the "
                   "instruction set that the fast paths use on this machine.",
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
