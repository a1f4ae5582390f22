/* A wrong file is refused with its name, the line and what was expected. */
#include "base/memory.h"
#include "nib_test.h"
#include <nibble/element.h>
#include <nibble/quantizer.h>
#include <nibble/scale.h>

#define HEAD "kind: element\ntitle: t\nsource: s\n"
#define GOOD "levels: [0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1]\n"
#define SCALE "kind: scale\ntitle: t\nsource: s\n"
#define BLOCK "kind: block\ntitle: t\nsource: s\ntensor_scale: none\n"
#define MINIFLOAT "rule: {type: minifloat, ebits: 2, mbits: 1, bias: 1}\n"

enum kind { ELEMENT, SCALE_FORMAT, BLOCK_FORMAT };
static const struct mistake {
    enum kind kind;
    const char *text;
    enum nib_status status;
    int line;
    const char *says, *also;
} mistakes[] = {
    {ELEMENT, HEAD "rle: {}\n" GOOD, NIB_ESYNTAX, 4, "unknown key \"rle\"", "did you mean \"rule\"?"},
    {ELEMENT, HEAD GOOD "colour: red\n", NIB_ESYNTAX, 5, "unknown key \"colour\"", "kind, title, source, rule, levels"},
    {ELEMENT, "kind: element\nsource: s\n" GOOD, NIB_ESYNTAX, 1, "missing key \"title\"", ""},
    {ELEMENT, HEAD, NIB_ESYNTAX, 1, "missing key: rule or levels", ""},
    {ELEMENT, HEAD GOOD "title: again\n", NIB_ESYNTAX, 5, "key \"title\" was already given on line 2", ""},
    {ELEMENT, "kind: scale\ntitle: t\nsource: s\n" GOOD, NIB_ESYNTAX, 1, "kind \"scale\" is not known", "element"},
    {ELEMENT, HEAD "levels: [0, 1, 2]\n", NIB_ESYNTAX, 4, "3 levels; expected a list of 16", ""},
    {ELEMENT, HEAD "levels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n", NIB_ESYNTAX, 4,
     "17 levels; expected a list of 16", "code order"},
    {ELEMENT, HEAD "levels: 7\n", NIB_ESYNTAX, 4, "expected a list of 16", ""},
    {ELEMENT, HEAD "levels: [0, 1, 2, 3, 4, 5, 6, 7,\n  -, -0.1, -6, -5, -4, -3, -2, -1]\n", NIB_ESYNTAX, 5,
     "level -0.1 is not exactly a binary32 number", "the nearest one is -0x1.99999ap-4"},
    {ELEMENT, HEAD "levels: [0, 1, 2, 3,\n 4, 5, 6, 3,\n -, -7, -6, -5, -4, -3, -2, -1]\n", NIB_ESYNTAX, 5,
     "codes 3 and 7 have the same level 3", "use - for an unused code"},
    {ELEMENT, HEAD "levels: [nan, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]\n", NIB_ESYNTAX, 4,
     "level \"nan\" is not a finite number", ""},
    {ELEMENT, HEAD "levels: [inf, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]\n", NIB_ESYNTAX, 4,
     "level \"inf\" is not a finite number", ""},
    {ELEMENT, HEAD "levels: [1e40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]\n", NIB_ESYNTAX, 4,
     "level \"1e40\" is not a finite number", ""},
    {ELEMENT, HEAD "levels: [010, 1, 2, 3, 4, 5, 6, 7, 8, 9, -, 11, 12, 13, 14, 15]\n", NIB_ESYNTAX, 4, "level \"010\"",
     ""},
    {ELEMENT, HEAD "levels: [1, -, -, -, -, -, -, -, -, -, -, -, -, -, -, -]\n", NIB_ESYNTAX, 4, "1 level in use",
     "2 to 16"},
    {ELEMENT, HEAD "levels: [[0], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]\n", NIB_ESYNTAX, 4,
     "a level must be a single number", ""},
    {ELEMENT, HEAD MINIFLOAT "levels: [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5,\n  -2, -3, -4, -5]\n",
     NIB_EINCONSISTENT, 6, "the level of code 15 is -5 here and -6 by the rule", ""},
    {ELEMENT, HEAD MINIFLOAT "levels: [0, 0.5, 1, 1.5, 2, 3, 4, 6, -, -0.5, -1, -1.5, -2, -3, -4, -6]\n",
     NIB_EINCONSISTENT, 5, "the level of code 8 is unused here and -0 by the rule", ""},
    {ELEMENT, HEAD "rule: {type: minifloat, ebits: 2, mbits: 2, bias: 1}\n", NIB_ESYNTAX, 4,
     "ebits + mbits is 4; expected 3", ""},
    {ELEMENT, HEAD "rule: {type: minifloat, ebits: 9, mbits: 2, bias: 1}\n", NIB_ESYNTAX, 4,
     "ebits is \"9\"; expected an integer from 0 to 3", ""},
    {ELEMENT, HEAD "rule: {type: minfloat, ebits: 2, mbits: 1, bias: 1}\n", NIB_ESYNTAX, 4,
     "type \"minfloat\" is not known", "did you mean \"minifloat\"?"},
    {ELEMENT, HEAD "rule: {ebits: 2, mbits: 1, bias: 1}\n", NIB_ESYNTAX, 4, "missing key \"type\"", ""},
    {ELEMENT, HEAD "rule: {type: sign-magnitude, max: 7, step: 0.1}\n", NIB_ESYNTAX, 4, "is not a binary32 number", ""},
    {ELEMENT, HEAD "rule: {type: sign-magnitude, max: 7, step: big}\n", NIB_ESYNTAX, 4,
     "step is \"big\"; expected a finite number", ""},
    {ELEMENT, HEAD "rule: minifloat\n", NIB_ESYNTAX, 4, "expected keys with values: type", ""},
    {ELEMENT, HEAD "rule: &a {type: minifloat, ebits: 2, mbits: 1, bias: 1}\n", NIB_ESYNTAX, 4, "anchors are not used",
     "&a"},
    {ELEMENT, "kind: element\ntitle: !!str t\n", NIB_ESYNTAX, 2, "tags are not used", ""},
    {ELEMENT, "kind: element\ntitle: *x\n", NIB_ESYNTAX, 2, "aliases are not used", "*x"},
    {ELEMENT, HEAD GOOD "---\nkind: element\n", NIB_ESYNTAX, 5, "a second document begins here", ""},
    {ELEMENT, "# nothing\n", NIB_ESYNTAX, 1, "holds no document", ""},
    {ELEMENT, "- a\n- b\n", NIB_ESYNTAX, 1, "expected \"key: value\" lines, such as \"kind: element\"", ""},
    {ELEMENT, "kind: element\ntitle: [t\nsource: s\n", NIB_ESYNTAX, 3, "not valid YAML", ""},
    {ELEMENT, "kind: element\ntitle: \"a\\0b\"\n", NIB_ESYNTAX, 2, "a NUL character", ""},
    {ELEMENT, "kind: element\ntitle:\nsource: s\n" GOOD, NIB_ESYNTAX, 2, "title is empty", ""},
    {ELEMENT, "kind: element\ntitle: [a, b]\n", NIB_ESYNTAX, 2, "title must be a single value", ""},
    {ELEMENT, "kind: element\n? [a]\n: b\n", NIB_ESYNTAX, 2, "a key must be a word", ""},
    {ELEMENT, "kind: element\ntitle: \x80\xff\n", NIB_ESYNTAX, 2, "not valid YAML", ""},
    {ELEMENT, "kind: element\ntitle: \x01\n", NIB_ESYNTAX, 2, "not valid YAML", ""},
    {ELEMENT, HEAD "levels: [[[[[[[[[[[[[[[[[[[[[[\n", NIB_ESYNTAX, 4, "nested deeper than 16 levels", ""},
    {SCALE_FORMAT, SCALE "rule: {type: minifloat, sign: true, ebits: 5, mbits: 3, bias: 7, specials: fn}\n",
     NIB_ESYNTAX, 4, "make 9 bits; expected 8", ""},
    {SCALE_FORMAT, SCALE "rule: {type: minifloat, sign: yes, ebits: 4, mbits: 3, bias: 7, specials: fn}\n", NIB_ESYNTAX,
     4, "sign is \"yes\"; expected true or false", ""},
    {SCALE_FORMAT, SCALE "rule: {type: minifloat, sign: true, ebits: 4, mbits: 3, bias: 7, specials: none}\n",
     NIB_ESYNTAX, 4, "specials \"none\" is not known", "ieee, fn"},
    {SCALE_FORMAT, SCALE "rule: {type: power-of-two, ebits: 8}\n", NIB_ESYNTAX, 4, "unknown key \"ebits\"", "type"},
    {SCALE_FORMAT, SCALE "rule: {type: minifloat, sign: false, ebits: 7, mbits: 1, bias: 126, specials: fn}\nmax: 1\n",
     NIB_EINCONSISTENT, 5, "max is 1 here and 2 by the rule", ""},
    {SCALE_FORMAT, SCALE "rule: {type: minifloat, sign: false, ebits: 7, mbits: 1, bias: -20, specials: fn}\n",
     NIB_ESYNTAX, 4, "within the normal binary32 range", ""},
    {BLOCK_FORMAT, BLOCK "element: e2m2\nscale: e4m3\nshape: 1x16\n", NIB_ESYNTAX, 5, "no element \"e2m2\"",
     "did you mean"},
    {BLOCK_FORMAT, BLOCK "element: e2m1\nscale: e4m4\nshape: 1x16\n", NIB_ESYNTAX, 6, "no scale \"e4m4\"",
     "did you mean \"e4m3\"?"},
    {BLOCK_FORMAT, BLOCK "element: e2m1\nscale: e4m3\nshape: 16\n", NIB_ESYNTAX, 7,
     "shape is \"16\"; expected ROWSxCOLS", ""},
    {BLOCK_FORMAT, BLOCK "element: e2m1\nscale: e4m3\nshape: 0x16\n", NIB_ESYNTAX, 7, "shape is \"0x16\"",
     "from 1 to 65536"},
    {BLOCK_FORMAT, BLOCK "element: /nowhere/x.yaml\nscale: e4m3\nshape: 1x16\n", NIB_EIO, 0, "cannot open",
     "No such file"},
};

static enum nib_status parse(enum kind kind, const char *text, size_t length, const void **out,
                             struct nib_error *error) {
    const struct nib_element *element;
    const struct nib_scale *scale;
    const struct nib_block *block;
    enum nib_status status = kind == ELEMENT        ? nib_element_parse(text, length, "dir/wrong.yaml", &element, error)
                             : kind == SCALE_FORMAT ? nib_scale_parse(text, length, "dir/wrong.yaml", &scale, error)
                                                    : nib_block_parse(text, length, "dir/wrong.yaml", &block, error);
    if (status == NIB_OK)
        *out = kind == ELEMENT ? (const void *)element : kind == SCALE_FORMAT ? (const void *)scale : block;
    return status;
}

static void every_mistake_is_named_with_its_line(void) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const struct mistake *m = &mistakes[i];
        struct nib_error error = {.line = -1};
        const void *untouched = &error, *out = untouched;
        enum nib_status status = parse(m->kind, m->text, strlen(m->text), &out, &error);
        bool right = status == m->status && error.status == status && error.line == m->line &&
                     strstr(error.text, m->says) != NULL && strstr(error.text, m->also) != NULL && out == untouched &&
                     strchr(error.text, '\n') == NULL;
        const char *file = m->status == NIB_EIO ? "/nowhere/x.yaml" : "dir/wrong.yaml";
        NIB_CHECKF(right && strcmp(error.file, file) == 0, "%zu: %s %s:%d: %s\nexpected line %d: %s ... %s\n%s", i,
                   nib_status_name(status), error.file, error.line, error.text, m->line, m->says, m->also, m->text);
    }
}

static void an_error_record_is_optional(void) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const void *out;
        CU_ASSERT_EQUAL(parse(mistakes[i].kind, mistakes[i].text, strlen(mistakes[i].text), &out, NULL),
                        mistakes[i].status);
    }
}

static void great_nesting_and_size_do_no_harm(void) {
    size_t size = 1 << 20;
    struct nib_error error;
    const struct nib_element *e;
    char *text = nib_alloc_raw(size, 1, "a test", &error);
    if (text == NULL) return;
    memset(text, '[', size);
    CU_ASSERT_EQUAL(nib_element_parse(text, size, "deep.yaml", &e, &error), NIB_ESYNTAX);
    memset(text, '{', size);
    CU_ASSERT_EQUAL(nib_element_parse(text, size, "deep.yaml", &e, &error), NIB_ESYNTAX);
    for (size_t i = 0; i + 8 <= size; i += 8) {
        char line[16];
        snprintf(line, sizeof line, "k%05x:\n", (unsigned)(i / 8));
        memcpy(text + i, line, 8);
    }
    CU_ASSERT_EQUAL(nib_element_parse(text, size, "many.yaml", &e, &error), NIB_ESYNTAX);
    CU_ASSERT(strstr(error.text, "more than 512 keys") != NULL);
    free(text);
}

static void unknown_names_and_bad_paths_are_named(void) {
    const struct nib_element *e;
    struct nib_error error;
    CU_ASSERT_EQUAL(nib_element_open("e2ml", &e, &error), NIB_ENOTFOUND);
    CU_ASSERT_STRING_EQUAL(error.text, "no element \"e2ml\"; did you mean \"e2m1\"?");
    CU_ASSERT_EQUAL(nib_element_open("posit", &e, &error), NIB_ENOTFOUND);
    CU_ASSERT(strstr(error.text, "nibble list elements") != NULL);
    CU_ASSERT_EQUAL(nib_element_open("/nowhere/e2m1.yaml", &e, &error), NIB_EIO);
    CU_ASSERT_EQUAL(nib_element_open("/usr", &e, &error), NIB_EIO);
    CU_ASSERT(strstr(error.text, "directory") != NULL);
    CU_ASSERT_EQUAL(nib_element_open(NIB_SOURCE_DIR "/formats/scales/e4m3.yaml", &e, &error), NIB_ESYNTAX);
    CU_ASSERT_STRING_EQUAL(error.file, NIB_SOURCE_DIR "/formats/scales/e4m3.yaml");
}

static void a_block_finds_its_parts_beside_itself(void) {
    char folder[] = "/tmp/nib-format-XXXXXX", path[128];
    const struct nib_block *block;
    struct nib_error error;
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/grid.yaml", folder);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(HEAD GOOD, file);
    fclose(file);
    char block_path[128];
    snprintf(block_path, sizeof block_path, "%s/mine.yaml", folder);
    file = fopen(block_path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(BLOCK "element: ./grid.yaml\nscale: fp32\nshape: 16x16\n", file);
    fclose(file);
    enum nib_status status = nib_block_open(block_path, &block, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    if (status == NIB_OK) {
        CU_ASSERT_STRING_EQUAL(block->name, "mine");
        CU_ASSERT_STRING_EQUAL(block->element->name, "grid");
        CU_ASSERT(block->block_rows == 16 && block->bits_per_value == 4.125f && !block->has_tensor_scale);
        nib_block_close(block);
    }
    remove(path);
    remove(block_path);
    remove(folder);
}

static void built_in_blocks_are_as_published(void) {
    static const struct {
        const char *name, *element, *scale;
        unsigned cols;
        bool tensor_scale;
        float bits;
    } facts[] = {{"nvfp4", "e2m1", "e4m3", 16, true, 4.5f},   {"mxfp4", "e2m1", "e8m0", 32, false, 4.25f},
                 {"nvint4", "int4", "e4m3", 16, true, 4.5f},  {"mxint4", "int4", "e8m0", 32, false, 4.25f},
                 {"e1m2-fp32", "e1m2", "fp32", 16, false, 6}, {"e2m1-fp32", "e2m1", "fp32", 16, false, 6}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const struct nib_block *b;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_block_open(facts[i].name, &b, &error), error);
        CU_ASSERT(strcmp(b->element->name, facts[i].element) == 0 && strcmp(b->scale->name, facts[i].scale) == 0);
        CU_ASSERT(b->block_rows == 1 && b->block_cols == facts[i].cols && b->has_tensor_scale == facts[i].tensor_scale);
        CU_ASSERT(b->bits_per_value == facts[i].bits && strlen(b->sha256) == 64);
        nib_block_close(b);
    }
}

NIB_TEST_MAIN("format files", {"every mistake is named with its line", every_mistake_is_named_with_its_line},
              {"an error record is optional", an_error_record_is_optional},
              {"great nesting and size do no harm", great_nesting_and_size_do_no_harm},
              {"unknown names and bad paths are named", unknown_names_and_bad_paths_are_named},
              {"a block finds its parts beside itself", a_block_finds_its_parts_beside_itself},
              {"built-in blocks are as published", built_in_blocks_are_as_published})
