/* Unit files: what is read, and what a wrong file is told. */
#include "nib_test.h"

#include <nibble/unit.h>

static const char good[] = "kind: unit\ntitle: t\nsource: s\narchitecture: a\ninstruction: i\nevidence: hardware\n"
                           "verified_by: v\nmodel: t-fdpa\noperands: [e4m3, e5m2]\nmixed: true\naccumulator: fp32\n"
                           "rounding: rz-e8m13\nk: 32\nblock: 32\nfraction_bits: 13\ne_zero: -133\n";

/* The file with one line replaced or, with "", removed. */
static enum nib_status parse_with(const char *line, const char *instead, struct nib_error *error) {
    char text[1024];
    const char *at = strstr(good, line);
    const struct nib_unit *unit;
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, instead, at + strlen(line));
    enum nib_status status = nib_unit_parse(text, strlen(text), "my.yaml", &unit, error);
    if (status == NIB_OK) nib_unit_close(unit);
    return status;
}

static void a_file_becomes_a_unit(void) {
    const struct nib_unit *unit;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_unit_parse(good, strlen(good), "dir/my.yaml", &unit, &error), error);
    CU_ASSERT_STRING_EQUAL(unit->name, "my");
    CU_ASSERT(unit->model == NIB_UNIT_T_FDPA && unit->rounding == NIB_RZ_E8M13 && unit->accumulator == NIB_ACC_FP32);
    CU_ASSERT(unit->operands == (1u << NIB_OPERAND_E4M3 | 1u << NIB_OPERAND_E5M2) && unit->mixed && !unit->saturate);
    CU_ASSERT(unit->k == 32 && unit->block == 32 && unit->fraction_bits == 13 && unit->e_zero == -133);
    CU_ASSERT(unit->scale == NIB_UNIT_SCALE_NONE && unit->scale_block == 0 && strlen(unit->sha256) == 64);
    CU_ASSERT_STRING_EQUAL(unit->text, good);
    nib_unit_close(unit);
}

static void every_built_in_opens_and_says_where_it_comes_from(void) {
    size_t by_evidence[3] = {0, 0, 0};
    const char *name;
    for (size_t i = 0; (name = nib_unit_builtin(i)) != NULL; i++) {
        const struct nib_unit *unit;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_unit_open(name, &unit, &error), error);
        CU_ASSERT(unit->title[0] != 0 && unit->source[0] != 0 && unit->verified_by[0] != 0);
        if (unit->evidence == NIB_HARDWARE) CU_ASSERT_PTR_NOT_NULL(strstr(unit->verified_by, "h200.safetensors"));
        by_evidence[unit->evidence]++;
        nib_unit_close(unit);
    }
    CU_ASSERT(by_evidence[NIB_HARDWARE] == 12 && by_evidence[NIB_PUBLISHED] > 50 && by_evidence[NIB_EXTRAPOLATED] > 0);
}

static void wrong_files_are_told_what_was_expected(void) {
    static const struct {
        const char *line, *instead, *says;
    } wrong[] = {
        {"fraction_bits: 13\n", "", "needs the key \"fraction_bits\""},
        {"fraction_bits: 13\n", "fraction_bits: 13\ngroup: 16\n", "has no key \"group\""},
        {"fraction_bits: 13\n", "fraction_bits: 99\n", "40"},
        {"[e4m3, e5m2]", "[e4m3, e5m9]", "no operand format \"e5m9\""},
        {"[e4m3, e5m2]", "[fp64]", "does not read fp64"},
        {"[e4m3, e5m2]", "[]", "list of operand formats"},
        {"model: t-fdpa", "model: u-fdpa", "st-fdpa"},
        {"rounding: rz-e8m13", "rounding: rne-fp16", "does not fit the accumulator"},
        {"block: 32", "block: 24", "multiple of block"},
        {"model: t-fdpa", "model: split-t-fdpa\nsaturate: true", "only integers saturate"},
        {"accumulator: fp32", "accumulator: s32", "does not fit the accumulator"},
        {"k: 32\n", "k: 32\nkk: 1\n", "kk"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct nib_error error = {.text = ""};
        enum nib_status status = parse_with(wrong[i].line, wrong[i].instead, &error);
        CU_ASSERT(status == NIB_ESYNTAX || status == NIB_EINCONSISTENT);
        NIB_CHECKF(strstr(error.text, wrong[i].says) != NULL, "\"%s\" does not say \"%s\"", error.text, wrong[i].says);
        CU_ASSERT_STRING_EQUAL(error.file, "my.yaml");
    }
}

/* The instruction set by name; units that lack a fast model for it fall back. */
static void the_instruction_set_can_be_chosen(void) {
    const struct nib_unit *unit;
    struct nib_error error;
    const char *ran;
    NIB_OK_OR_FAIL(nib_unit_open("hopper-wgmma-fp8-f32", &unit, &error), error);
    NIB_OK_OR_FAIL(nib_unit_isa(unit, NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, "generic", &ran, &error), error);
    CU_ASSERT_STRING_EQUAL(ran, "generic");
    NIB_OK_OR_FAIL(nib_unit_isa(unit, NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, "ref", &ran, &error), error);
    CU_ASSERT_STRING_EQUAL(ran, "ref");
    CU_ASSERT_EQUAL(nib_unit_isa(unit, NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, "sse9", &ran, &error), NIB_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "generic, avx2, avx512 or ref"));
    nib_unit_close(unit);
}

NIB_TEST_MAIN("unit files", {"a file becomes a unit", a_file_becomes_a_unit},
              {"every built-in opens and says where it comes from", every_built_in_opens_and_says_where_it_comes_from},
              {"wrong files are told what was expected", wrong_files_are_told_what_was_expected},
              {"the instruction set can be chosen", the_instruction_set_can_be_chosen})
