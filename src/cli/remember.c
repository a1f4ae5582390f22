#include "cli/remember.h"

#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "io/locator.h"
#include "quantize/isa.h"

enum nib_status nib_remember_call(const struct nib_call *call, const char *isa, int ranks, struct nib_provenance **out,
                                  struct nib_error *error) {
    const struct nib_isa *chosen = NULL;
    bool reference = false;
    struct nib_provenance *provenance = NULL;
    enum nib_status status = nib_isa_choose(isa, &chosen, &reference, error);
    if (status == NIB_OK) status = nib_provenance_new(&provenance, error);
    if (status != NIB_OK) return status;
    nib_provenance_set_command(provenance, call->argc, call->argv);
    nib_provenance_set_parallel(provenance, nib_threads((int)call->common.threads), ranks);
    nib_provenance_set_isa(provenance, reference ? "ref" : chosen->name);
    *out = provenance;
    return NIB_OK;
}

enum nib_status nib_remember_input(struct nib_provenance *provenance, const char *locator, struct nib_error *error) {
    struct nib_file *file;
    size_t *indices, count;
    if (locator == NULL || strncmp(locator, "0x", 2) == 0) return NIB_OK;
    enum nib_status status = nib_locator_open(locator, true, &file, &indices, &count, error);
    if (status != NIB_OK) return status;
    status = nib_provenance_add_file(provenance, file, error);
    free(indices);
    nib_file_close(file);
    return status;
}
