/* What a call was asked, for its JSON. */
#include <math.h>
#include <string.h>

#include "cli/output.h"
#include "io/json_out.h"

static void write_texts(struct nib_json *json, const char *key, const char *const *texts, size_t count) {
    nib_json_array(json, key);
    for (size_t i = 0; i < count; i++) nib_json_text(json, NULL, texts[i]);
    nib_json_close(json);
}

/* A default outside what may be given means that the command decides. */
static void write_option(struct nib_json *json, const struct nib_option *option, const void *field) {
    char key[64] = "";
    strncpy(key, option->name, sizeof key - 1);
    for (char *c = key; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    switch (option->type) {
    case NIB_OPTION_FLAG: nib_json_bool(json, key, *(const bool *)field); break;
    case NIB_OPTION_TEXT:
        if (*(const char *const *)field != NULL) nib_json_text(json, key, *(const char *const *)field);
        break;
    case NIB_OPTION_TEXTS:
    case NIB_OPTION_LIST: {
        const struct nib_texts *texts = field;
        if (texts->count > 0) write_texts(json, key, texts->item, texts->count);
        break;
    }
    case NIB_OPTION_INTEGER:
        if (*(const int64_t *)field >= option->low) nib_json_integer(json, key, *(const int64_t *)field);
        break;
    case NIB_OPTION_REAL:
        if (!isnan(*(const double *)field)) nib_json_real(json, key, *(const double *)field);
        break;
    case NIB_OPTION_FLOAT:
        if (!isnan(*(const float *)field)) nib_json_float(json, key, *(const float *)field);
        break;
    case NIB_OPTION_CHOICE:
        if (*(const int *)field >= 0) nib_json_text(json, key, option->choices[*(const int *)field]);
        break;
    }
}

void nib_output_parameters(const struct nib_call *call, struct nib_json *json) {
    const struct nib_command *command = call->command;
    nib_json_object(json, "parameters");
    if (call->value_count > 0) write_texts(json, "values", call->values, call->value_count);
    for (const struct nib_option *option = command->options; option != NULL && option->name != NULL; option++)
        write_option(json, option, (const char *)call->options + option->offset);
    if ((command->takes & NIB_TAKES_SEED) != 0) nib_json_integer(json, "seed", call->common.seed);
    nib_json_close(json);
}
