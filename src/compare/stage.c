#include <nibble/compare.h>

#include <stdio.h>
#include <string.h>

const char *nib_stage_name(enum nib_stage stage) {
    static const char *const names[NIB_STAGES] = {"shape", "tensor scale", "block scales", "codes", "packed", "values", "other"};
    return (unsigned)stage < NIB_STAGES ? names[stage] : "other";
}

/* What the arrays of a quantized tensor are called in files. */
static const struct {
    const char *name, *usual;
    enum nib_stage stage;
} names[] = {
    {"tensor_amax", "tensor_amax", NIB_STAGE_TENSOR_SCALE},
    {"amax", "tensor_amax", NIB_STAGE_TENSOR_SCALE},
    {"tensor_scale", "tensor_scale_decode", NIB_STAGE_TENSOR_SCALE},
    {"tensor_scale_decode", "tensor_scale_decode", NIB_STAGE_TENSOR_SCALE},
    {"weight_scale_2", "tensor_scale_decode", NIB_STAGE_TENSOR_SCALE},
    {"tensor_scale_encode", "tensor_scale_encode", NIB_STAGE_TENSOR_SCALE},
    {"weight_global_scale", "tensor_scale_encode", NIB_STAGE_TENSOR_SCALE},
    {"scales", "scales", NIB_STAGE_BLOCK_SCALES},
    {"scale", "scales", NIB_STAGE_BLOCK_SCALES},
    {"scales/scale", "scales", NIB_STAGE_BLOCK_SCALES},
    {"weight_scale", "scales", NIB_STAGE_BLOCK_SCALES},
    {"scale_value", "scale_values", NIB_STAGE_BLOCK_SCALES},
    {"scale_values", "scale_values", NIB_STAGE_BLOCK_SCALES},
    {"scales/scale_value", "scale_values", NIB_STAGE_BLOCK_SCALES},
    {"codes", "codes", NIB_STAGE_CODES},
    {"elements/code", "codes", NIB_STAGE_CODES},
    {"packed", "packed", NIB_STAGE_PACKED},
    {"packed/packed", "packed", NIB_STAGE_PACKED},
    {"weight_packed", "packed", NIB_STAGE_PACKED},
    {"bytes", "packed", NIB_STAGE_PACKED},
    {"dequantized", "dequantized", NIB_STAGE_VALUES},
    {"elements/dequantized", "dequantized", NIB_STAGE_VALUES},
    {"dequant", "dequantized", NIB_STAGE_VALUES},
    {"value", "dequantized", NIB_STAGE_VALUES},
};

enum nib_stage nib_stage_of_name(const char *name, char *usual) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            snprintf(usual, NIB_PART_NAME, "%s", names[i].usual);
            return names[i].stage;
        }
    snprintf(usual, NIB_PART_NAME, "%s", name);
    return NIB_STAGE_OTHER;
}
