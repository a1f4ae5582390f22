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
    {"tensor_amax_by_line", "tensor_amax_by_line", NIB_STAGE_TENSOR_SCALE},
    {"scales/tensor_amax_by_line", "tensor_amax_by_line", NIB_STAGE_TENSOR_SCALE},
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
    {"qdata", "packed", NIB_STAGE_PACKED},
    {"per_tensor_scale", "tensor_scale_decode", NIB_STAGE_TENSOR_SCALE},
    {"blocks", "packed", NIB_STAGE_PACKED},
    {"rowwise_data", "packed", NIB_STAGE_PACKED},
    {"rowwise_scale_inv", "scales", NIB_STAGE_BLOCK_SCALES},
    {"amax_rowwise", "tensor_amax", NIB_STAGE_TENSOR_SCALE},
    {"columnwise_data", "packed", NIB_STAGE_PACKED},
    {"columnwise_scale_inv", "scales", NIB_STAGE_BLOCK_SCALES},
    {"amax_columnwise", "tensor_amax", NIB_STAGE_TENSOR_SCALE},
};

/* How checkpoints end the names of the tensors of a weight X. */
static const char *const endings[] = {".weight_packed", ".weight_scale", ".weight_global_scale", ".weight_scale_2",
    "_rowwise_data", "_rowwise_scale_inv", "_amax_rowwise", "_columnwise_data", "_columnwise_scale_inv", "_amax_columnwise",
    ".qdata", ":qdata", "_qdata", ".scale", ":scale", ".per_tensor_scale", ":per_tensor_scale", "_per_tensor_scale", "_blocks",
    "_scales"};

static bool ends_with(const char *name, const char *ending) {
    size_t length = strlen(name), size = strlen(ending);
    return length >= size && strcmp(name + length - size, ending) == 0;
}

static size_t find(const char *name) {
    size_t i = 0;
    while (i < sizeof names / sizeof *names && strcmp(name, names[i].name) != 0) i++;
    return i;
}

/* The longest that fits. */
static const char *known_ending(const char *name) {
    const char *best = NULL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i]) && (best == NULL || strlen(endings[i]) > strlen(best))) best = endings[i];
    return best;
}

enum nib_stage nib_stage_of_tensor(const char *name, char *usual, enum nib_name_fit *fit) {
    size_t i = find(name);
    *fit = NIB_NAME_WHOLE;
    if (i == sizeof names / sizeof *names) {
        const char *ending = known_ending(name);
        *fit = ending != NULL ? NIB_NAME_ENDING : NIB_NAME_UNKNOWN;
        if (ending != NULL) i = find(ending + 1);
    }
    if (*fit != NIB_NAME_UNKNOWN && (ends_with(name, "columnwise") || strstr(name, "columnwise_") != NULL))
        *fit = NIB_NAME_TRANSPOSED;
    if (*fit == NIB_NAME_UNKNOWN) {
        snprintf(usual, NIB_PART_NAME, "%s", name);
        return NIB_STAGE_OTHER;
    }
    snprintf(usual, NIB_PART_NAME, "%s", names[i].usual);
    return names[i].stage;
}

enum nib_stage nib_stage_of_name(const char *name, char *usual) {
    enum nib_name_fit fit;
    return nib_stage_of_tensor(name, usual, &fit);
}
