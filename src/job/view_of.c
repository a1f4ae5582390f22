#include "job/view_of.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const nib_gemm_names[NIB_GEMMS + 1] = {"fprop", "dgrad", "wgrad", NULL};
const char *const nib_operand_names[NIB_OPERANDS + 1] = {"x", "w", "dy", NULL};

bool nib_gemm_axis(enum nib_gemm gemm, enum nib_operand operand, enum nib_axis *axis) {
    static const struct {
        enum nib_gemm gemm;
        enum nib_operand operand;
        enum nib_axis axis;
    } table[] = {
        {NIB_GEMM_FPROP, NIB_OPERAND_X, NIB_ALONG_COLS},  {NIB_GEMM_FPROP, NIB_OPERAND_W, NIB_ALONG_COLS},
        {NIB_GEMM_DGRAD, NIB_OPERAND_DY, NIB_ALONG_COLS}, {NIB_GEMM_DGRAD, NIB_OPERAND_W, NIB_ALONG_ROWS},
        {NIB_GEMM_WGRAD, NIB_OPERAND_DY, NIB_ALONG_ROWS}, {NIB_GEMM_WGRAD, NIB_OPERAND_X, NIB_ALONG_ROWS},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].gemm == gemm && table[i].operand == operand) {
            *axis = table[i].axis;
            return true;
        }
    return false;
}

/* Whether `name` ends in `suffix`; *length then is what comes before. */
static bool ends_in(const char *name, const char *suffix, size_t *length) {
    size_t whole = strlen(name), part = strlen(suffix);
    if (whole < part || strcmp(name + whole - part, suffix) != 0) return false;
    *length = whole - part;
    return true;
}

void nib_tensor_role_of(const struct nib_tensor_info *info, struct nib_tensor_role *out) {
    struct nib_tensor_role role = {NIB_OPERAND_NONE, -1, "", false};
    const char *name = info->name;
    size_t length = strlen(name);
    if (ends_in(name, ".input", &length))
        role.operand = NIB_OPERAND_X;
    else if (ends_in(name, ".grad_output", &length))
        role.operand = NIB_OPERAND_DY;
    else if (ends_in(name, ".weight", &length))
        role.operand = NIB_OPERAND_W;
    const char *first = name, *layers = strstr(name, "layers.");
    if (layers != NULL) {
        char *end;
        long layer = strtol(layers + 7, &end, 10);
        if (end != layers + 7 && *end == '.' && layer >= 0 && layer < 1000000) {
            role.layer = (int)layer;
            first = end + 1;
        }
    }
    const char *last = name + length;
    if (first < last) snprintf(role.module, sizeof role.module, "%.*s", (int)(last - first), first);
    bool vector_like = strstr(name, "norm") != NULL || strstr(name, "embed") != NULL;
    role.linear = info->rank == 2 && !vector_like;
    *out = role;
}
