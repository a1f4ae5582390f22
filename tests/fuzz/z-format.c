/* Format files: no input may crash, and whatever is accepted must keep its promises. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/round.h"
#include "fuzz/target.h"
#include <nibble/element.h>
#include <nibble/quantizer.h>
#include <nibble/scale.h>

static void require(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

/* A refusal carries its own status, one line of text, and no line beyond the file. */
static void check_refusal(enum nib_status status, const struct nib_error *error, const char *text, size_t size) {
    int lines = 1;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n' || text[i] == '\r';
    /* YAML also ends lines at NEL, LS and PS, two or three bytes long */
    for (size_t i = 0; i + 1 < size; i++) lines += (unsigned char)text[i] == 0xC2 || (unsigned char)text[i] == 0xE2;
    require(error->status == status, "the error's status is the one returned");
    require(error->text[0] != '\0', "an error has a text");
    require(error->line >= 0 && error->line <= lines + 1, "the line is in the file");
}

static void check_element(const struct nib_element *e) {
    require(e->levels >= 2 && e->levels <= 16, "2 to 16 levels");
    for (int mode = 0; mode < NIB_ROUNDINGS; mode++) {
        struct nib_rule rule;
        nib_rule_compile(e, (enum nib_rounding)mode, &rule);
        for (unsigned i = 1; i < e->levels - 1; i++)
            require(rule.threshold[i - 1] <= rule.threshold[i], "thresholds ascend");
        for (unsigned r = 0; r < e->levels; r++) {
            float level = e->level_of_rank[r];
            require(isfinite(level), "levels are finite");
            require(nib_round_code(&rule, nib_bits_of_float(level)) == e->code_of_rank[r], "levels are fixed points");
        }
        for (unsigned i = 0; i + 1 < e->levels; i++)
            for (int32_t d = -1; d <= 1; d++) {
                uint32_t bits = nib_bits_of_key(rule.threshold[i] + d);
                if ((bits & NIB_BITS_MAGNITUDE) > NIB_BITS_INFINITY) continue;
                require(nib_round_code(&rule, bits) ==
                            nib_element_round_ref(e, (enum nib_rounding)mode, nib_float_of_bits(bits)),
                        "thresholds are those of the definition");
            }
    }
}

static void check_scale(const struct nib_scale *s) {
    uint32_t step = s->max_code / 300 + 1;
    for (uint32_t code = 0; code <= s->max_code - (s->max_code % step); code += step) {
        float value = nib_scale_decode(s, code);
        require(isfinite(value), "codes up to the largest are numbers");
        for (int mode = 0; mode < 3; mode++)
            require(nib_scale_encode(s, (enum nib_scale_rounding)mode, value) == code,
                    "values of codes encode to them");
    }
    require(isnan(nib_scale_decode(s, s->nan_code)), "the NaN code is NaN");
}

/* Files may name others, which would let random input read anything; names only. */
static int names_a_file(const char *text, size_t size) {
    return memchr(text, '/', size) != NULL || strstr(text, ".yaml") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct nib_element *element;
    const struct nib_scale *scale;
    const struct nib_block *block;
    const struct nib_quantizer *quantizer;
    struct nib_error error = {.status = NIB_OK};
    char *text = malloc(size + 1);
    if (text == NULL) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    enum nib_status status = nib_element_parse(text, size, "fuzz.yaml", &element, &error);
    if (status == NIB_OK) {
        check_element(element);
        nib_element_close(element);
    } else {
        check_refusal(status, &error, text, size);
    }
    status = nib_scale_parse(text, size, "fuzz.yaml", &scale, &error);
    if (status == NIB_OK) {
        check_scale(scale);
        nib_scale_close(scale);
    } else {
        check_refusal(status, &error, text, size);
    }
    if (!names_a_file(text, size)) {
        if (nib_block_parse(text, size, "fuzz.yaml", &block, &error) == NIB_OK) nib_block_close(block);
        if (nib_quantizer_parse(text, size, "fuzz.yaml", &quantizer, &error) == NIB_OK) nib_quantizer_close(quantizer);
    }
    free(text);
    return 0;
}
