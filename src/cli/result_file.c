#include "cli/result_file.h"

enum nib_status nib_result_file_open(const struct nib_call *call, const char *title, struct nib_result **out,
                                     struct nib_error *error) {
    if (call->common.output != NULL) return nib_result_open(call->common.output, title, out, error);
    *out = NULL;
    return NIB_OK;
}

enum nib_status nib_result_file_end(enum nib_status status, struct nib_result *file, struct nib_provenance *provenance,
                                    struct nib_error *error) {
    if (file != NULL && status == NIB_OK)
        status = nib_result_commit(file, provenance, error);
    else
        nib_result_abandon(file);
    nib_provenance_free(provenance);
    return status;
}
