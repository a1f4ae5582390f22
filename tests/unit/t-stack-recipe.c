/* Recipe files: what is refused and where, what is shipped, which layers are covered. */
#include "nib_test.h"

#include <nibble/linear.h>

#include "format/registry.h"

static struct nib_error error;

#define HEAD "kind: recipe\ntitle: t\nsource: s\n"

static const struct {
    const char *text;
    int line;
    const char *says;
} wrong[] = {
    {"kind: recipe\ntitle: t\n", 1, "missing key \"source\""},
    {"kind: receipt\ntitle: t\nsource: s\n", 1, "recipe"},
    {HEAD "fprob:\n  x: {quantizer: te-nvfp4}\n", 4, "fprob"},
    {HEAD "title: again\n", 4, "title"},
    {HEAD "fprop:\n  dy: {quantizer: te-nvfp4}\n", 5, "dy"},
    {HEAD "fprop:\n  x: te-nvfp4\n", 5, "expected keys"},
    {HEAD "fprop:\n  x: {quantizer: te-nvfp5}\n", 5, "te-nvfp4"},
    {HEAD "fprop:\n  x: {quantizer: te-nvfp4, quantizer: te-nvfp4}\n", 5, "quantizer"},
    {HEAD "fprop:\n  x: {quantizer: te-nvfp4, set: rounding=sr}\n", 5, "a list of axis=value"},
    {HEAD "fprop:\n  x: {quantizer: te-nvfp4, set: [rounding=random]}\n", 5, "rounding"},
    {HEAD "fprop:\n  x:\n    quantizer: te-nvfp4\n    set:\n    - rounding=sr\n    - sr_bits=8\n    - rounding=rne\n", 10,
     "axis rounding is set twice: rounding=sr and rounding=rne"},
    {HEAD "fprop:\n  x: {quantizer: te-nvfp4}\n  x: {quantizer: ocp-mxfp4}\n", 6, "key \"x\" was already given on line 5"},
    {HEAD "fprop:\n  x: {quantizer: ocp-mxfp4, set: [tensor_scale=T/g]}\n", 5, "tensor_scale"},
    {HEAD "fprop:\n  x: {set: [rounding=sr]}\n", 5, "a quantizer"},
    {HEAD "fprop:\n  x: {}\n", 5, "left out"},
    {HEAD "fprop:\n  x: {quantizer: te-nvfp4, factor: 0}\n", 5, "factor"},
    {HEAD "fprop:\n  x: {quantizer: te-nvfp4, source: same}\n", 5, "source"},
    {HEAD "fprop:\n  rotation: rth16\n", 5, "rht16"},
    {HEAD "fprop:\n  signs: drawn\n", 5, "rotation"},
    {HEAD "fprop:\n  rotation: rht16\n  signs: random\n", 6, "drawn"},
    {HEAD "fprop:\n  output_factor: -1\n", 5, "output_factor"},
    {HEAD "dgrad:\n  pad: 128\n", 5, "pad"},
    {HEAD "fprop:\n  pad: true\n  rotation: rht16\n  w: {quantizer: te-nvfp4}\ndgrad:\n  w: {source: same}\n", 5,
     "source: original"},
    {HEAD "dgrad:\n  w: {source: same}\n", 5, "a quantized operand of fprop"},
    {HEAD "fprop:\n  w: {quantizer: te-nvfp4}\ndgrad:\n  w: {source: same, quantizer: te-nvfp4}\n", 7, "the codes stay"},
    {HEAD "fprop:\n  w: {quantizer: te-nvfp4}\ndgrad:\n  w: {source: codes}\n", 7, "dequantized"},
    {HEAD "fprop:\n  x: {quantizer: e2m1-row, clamp: {quantile: 0.3}}\n", 5, "0.5"},
    {HEAD "fprop:\n  x: {quantizer: e2m1-row, clamp: {residual: true}}\n", 5, "quantile"},
    {HEAD "fprop:\n  w: {quantizer: e2m1-row, clamp: {quantile: 0.9}}\n", 5, "clamp"},
    {HEAD "fprop:\n  rotation: rht16\n  x: {quantizer: te-nvfp4, mask: true}\n", 5, "dgrad.w"},
    {HEAD "fprop:\n  w: {quantizer: te-nvfp4, gptq: {damping: 0}}\n", 5, "damping"},
    {HEAD "fprop:\n  w: {quantizer: te-nvfp4-sr, gptq: {damping: 0.01}}\n", 5, "rounds to nearest"},
    {HEAD "fprop:\n  w: {quantizer: te-nvfp4, ternary: {block: 128, iterations: 9}}\n", 5, "no quantizer"},
    {HEAD "fprop:\n  w: {ternary: {block: 1, iterations: 9}}\n", 5, "block"},
    {HEAD "wgrad:\n  surrogate: {power: 5, cap: 3}\n", 5, "fprop.w"},
    {HEAD "wgrad:\n  surrogate: {power: 5, cap: 3}\nfprop:\n  w: {quantizer: hif4}\n", 5, "one scale"},
    {HEAD "fprop:\n  x: {quantizer: hif4, mask: true}\n", 5, "one scale"},
    {HEAD "fprop:\n  x: {quantizer: te-ref-nvfp4-row, mask: true}\n", 5, "one scale"},
    {HEAD "fprop:\n  x: {quantizer: tetrajet2-nvfp4, mask: true}\n", 5, "one scale"},
    {HEAD "fprop:\n  x: {quantizer: fouroversix-if4-mse, mask: true}\n", 5, "one scale"},
    {HEAD "high_precision: {first: -1}\n", 4, "first"},
    {HEAD "high_precision: {modules: [mlp.gate]}\n", 4, "mlp.gate_proj"},
    {HEAD "high_precision: {modules: lm_head}\n", 4, "a list"},
};

static void a_wrong_file_is_refused_with_its_line(void) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct nib_recipe *recipe = NULL;
        memset(&error, 0, sizeof error);
        enum nib_status status = nib_recipe_parse(wrong[i].text, strlen(wrong[i].text), "mine.yaml", &recipe, &error);
        NIB_CHECKF(status == NIB_ESYNTAX && error.status == status, "%s gives %s", wrong[i].text, nib_status_name(status));
        NIB_CHECKF(error.line == wrong[i].line && strcmp(error.file, "mine.yaml") == 0, "%s: line %d of \"%s\": %s",
                   wrong[i].text, error.line, error.file, error.text);
        NIB_CHECKF(strstr(error.text, wrong[i].says) != NULL, "%s says: %s", wrong[i].text, error.text);
        CU_ASSERT_PTR_NULL(recipe);
    }
}

static void a_name_that_does_not_exist_is_corrected(void) {
    const struct nib_recipe *recipe = NULL;
    CU_ASSERT_EQUAL(nib_recipe_open("nvpf4", &recipe, &error), NIB_ENOTFOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "nvfp4"));
    CU_ASSERT_PTR_NULL(recipe);
    CU_ASSERT_EQUAL(nib_recipe_open("./no-such.yaml", &recipe, &error), NIB_EIO);
}

static void every_recipe_shipped_opens_and_cites_its_source(void) {
    size_t count = 0;
    for (const char *name; (name = nib_registry_name("recipes", count)) != NULL; count++) {
        const struct nib_recipe *recipe;
        enum nib_status status = nib_recipe_open(name, &recipe, &error);
        NIB_CHECKF(status == NIB_OK, "%s: %s", name, error.text);
        if (status != NIB_OK) continue;
        CU_ASSERT_STRING_EQUAL(nib_recipe_name(recipe), name);
        NIB_CHECKF(strstr(nib_recipe_source(recipe), "arXiv") != NULL || strcmp(name, "mxfp4") == 0, "%s: %s", name,
                   nib_recipe_source(recipe));
        CU_ASSERT_EQUAL(strlen(nib_recipe_sha256(recipe)), 64);
        nib_recipe_close(recipe);
    }
    CU_ASSERT(count >= 19);
}

static void a_recipe_of_fifteen_lines_is_enough(void) {
    static const char text[] = "kind: recipe\n"
                               "title: mine\n"
                               "source: an experiment\n"
                               "fprop:\n"
                               "  x: {quantizer: te-nvfp4}\n"
                               "  w: {quantizer: e1m2-fp32, factor: 0.5}\n"
                               "dgrad:\n"
                               "  dy: {quantizer: te-nvfp4, set: [rounding=sr]}\n"
                               "  w: {quantizer: ocp-mxfp4, source: dequantized}\n"
                               "wgrad:\n"
                               "  rotation: rht16\n"
                               "  signs: drawn\n"
                               "  dy: {quantizer: te-nvfp4, set: [rounding=sr]}\n"
                               "  x: {source: same}\n"
                               "high_precision: {first: 1, last: 2, modules: [self_attn.o_proj]}\n";
    const struct nib_recipe *recipe;
    NIB_OK_OR_FAIL(nib_recipe_parse(text, strlen(text), "mine.yaml", &recipe, &error), error);
    struct nib_quantizer_info info;
    static const char *const names[NIB_SLOTS] = {"te-nvfp4", "e1m2-fp32", "te-nvfp4+rounding=sr", "ocp-mxfp4",
                                                 "te-nvfp4+rounding=sr", "te-nvfp4"};
    for (int slot = 0; slot < NIB_SLOTS; slot++) {
        nib_quantizer_describe(nib_recipe_quantizer(recipe, slot), &info);
        CU_ASSERT_STRING_EQUAL(info.name, names[slot]);
        CU_ASSERT_EQUAL(nib_recipe_rotation(recipe, slot) != NULL, slot >= NIB_SLOT_WGRAD_DY);
    }
    CU_ASSERT_STRING_EQUAL(nib_recipe_name(recipe), "mine");
    CU_ASSERT_STRING_EQUAL(nib_recipe_leaves_out(recipe), "");
    for (unsigned layer = 0; layer < 6; layer++)
        for (int module = 0; module < NIB_MODULES; module++)
            CU_ASSERT_EQUAL(nib_recipe_covers(recipe, layer, 6, module),
                            layer >= 1 && layer < 4 && module != NIB_MODULE_O);
    nib_recipe_close(recipe);
}

static void slots_have_the_names_that_files_use(void) {
    CU_ASSERT_STRING_EQUAL(nib_slot_name(NIB_SLOT_WGRAD_X), "wgrad.x");
    CU_ASSERT_STRING_EQUAL(nib_pass_name(nib_slot_pass(NIB_SLOT_DGRAD_W)), "dgrad");
    CU_ASSERT_STRING_EQUAL(nib_module_name(NIB_MODULE_DOWN), "mlp.down_proj");
}

NIB_TEST_MAIN("recipes", {"a wrong file is refused with its line", a_wrong_file_is_refused_with_its_line},
              {"a name that does not exist is corrected", a_name_that_does_not_exist_is_corrected},
              {"every recipe shipped opens and cites its source", every_recipe_shipped_opens_and_cites_its_source},
              {"a recipe of fifteen lines is enough", a_recipe_of_fifteen_lines_is_enough},
              {"slots have the names that files use", slots_have_the_names_that_files_use})
