/* Command lines become typed values, or one line that says what was expected. */
#include "cli/command.h"
#include "cli/pages.h"
#include "nib_test.h"

#include <math.h>
#include <stdarg.h>

struct arguments {
    bool strict;
    const char *name;
    struct nib_texts set, list;
    int64_t width;
    double tail;
    float amax;
    int mode;
};
static const struct arguments defaults = {.name = "e2m1", .width = 16, .tail = NAN, .amax = NAN, .mode = 1};
static const char *const modes[] = {"rne", "rna", "rtz", NULL};
static const struct nib_option options[] = {
    NIB_OPT_FLAG(struct arguments, strict, "strict", 's', "be strict"),
    NIB_OPT_TEXT(struct arguments, name, "name", 'n', "NAME", "a name"),
    NIB_OPT_TEXTS(struct arguments, set, "set", 0, "AXIS=VALUE", "an axis"),
    NIB_OPT_LIST(struct arguments, list, "list", 'l', "A,B", "names"),
    NIB_OPT_INTEGER(struct arguments, width, "width", 'w', "N", 1, 4096, "a width"),
    NIB_OPT_REAL(struct arguments, tail, "tail", 0, "X", -1, 1, "a tail"),
    NIB_OPT_FLOAT(struct arguments, amax, "amax", 0, "X", 0, INFINITY, "an amax"),
    NIB_OPT_CHOICE(struct arguments, mode, "mode", 0, "MODE", modes, "a mode"),
    NIB_OPT_END};
static const struct nib_command command = {.name = "test",
                                           .values = "VALUE...",
                                           .least = 0,
                                           .most = 5,
                                           .options = options,
                                           .defaults = &defaults,
                                           .size = sizeof defaults,
                                           .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS};

/* Parses words up to a NULL; the words are writable copies, as argv is. */
static enum nib_status parse(struct nib_call *call, struct nib_error *error, ...) {
    static char copies[16][64];
    char *words[16];
    int count = 0;
    va_list arguments;
    va_start(arguments, error);
    for (const char *word; (word = va_arg(arguments, const char *)) != NULL; count++) {
        snprintf(copies[count], sizeof copies[count], "%s", word);
        words[count] = copies[count];
    }
    va_end(arguments);
    memset(call, 0, sizeof *call);
    return nib_options_parse(&command, count, words, call, error);
}

static void nothing_given_leaves_the_defaults(void) {
    struct nib_call call;
    struct nib_error error;
    NIB_OK_OR_FAIL(parse(&call, &error, NULL), error);
    const struct arguments *given = call.options;
    CU_ASSERT_STRING_EQUAL(given->name, "e2m1");
    CU_ASSERT(given->width == 16 && isnan(given->tail) && isnan(given->amax) && given->mode == 1 && !given->strict);
    CU_ASSERT(given->set.count == 0 && given->list.count == 0 && call.value_count == 0);
    CU_ASSERT(!call.common.json && call.common.output == NULL && call.common.threads == 0);
    nib_options_free(&call);
}

/* A default that is given is given. */
static void what_is_on_the_command_line_is_known(void) {
    static const char *const names[] = {"strict", "tail", "width", NULL}, *const others[] = {"strict", "tsv", NULL};
    struct nib_call call;
    struct nib_error error;
    NIB_OK_OR_FAIL(parse(&call, &error, "--width", "16", "-l", "a,b", "--json", "-t", "0", NULL), error);
    CU_ASSERT(nib_option_given(&call, "width") && nib_option_given(&call, "list"));
    CU_ASSERT(nib_option_given(&call, "json") && nib_option_given(&call, "threads"));
    CU_ASSERT(!nib_option_given(&call, "name") && !nib_option_given(&call, "tsv") && !nib_option_given(&call, "output"));
    CU_ASSERT(nib_options_refuse(&call, others, "fits not", &error) == NIB_OK);
    CU_ASSERT(nib_options_refuse(&call, names, "goes with --strict", &error) == NIB_EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text, "test: --width goes with --strict");
    nib_options_free(&call);
}

static void every_type_is_stored(void) {
    struct nib_call call;
    struct nib_error error;
    NIB_OK_OR_FAIL(parse(&call, &error, "-s", "--name", "nf4", "--width=4096", "--tail", "-0.25", "--amax", "0.1", "--mode",
                         "rtz", "--json", "-o", "out.h5", NULL),
                   error);
    const struct arguments *given = call.options;
    CU_ASSERT(given->strict && given->width == 4096 && given->tail == -0.25 && given->amax == 0.1f && given->mode == 2);
    CU_ASSERT_STRING_EQUAL(given->name, "nf4");
    CU_ASSERT(call.common.json);
    CU_ASSERT_STRING_EQUAL(call.common.output, "out.h5");
    nib_options_free(&call);
}

static void short_options_bundle_and_take_the_rest(void) {
    struct nib_call call;
    struct nib_error error;
    NIB_OK_OR_FAIL(parse(&call, &error, "-sw32", "-ofile", "-n", "-x", NULL), error);
    const struct arguments *given = call.options;
    CU_ASSERT(given->strict && given->width == 32);
    CU_ASSERT_STRING_EQUAL(given->name, "-x");
    CU_ASSERT_STRING_EQUAL(call.common.output, "file");
    nib_options_free(&call);
}

static void repeated_options_keep_their_order(void) {
    struct nib_call call;
    struct nib_error error;
    NIB_OK_OR_FAIL(parse(&call, &error, "--set", "a=1", "-l", "x,y", "--set", "b=2,3", "-lz", "--set=c=", NULL), error);
    const struct arguments *given = call.options;
    static const char *const set[] = {"a=1", "b=2,3", "c="}, *const list[] = {"x", "y", "z"};
    CU_ASSERT_FATAL(given->set.count == 3 && given->list.count == 3);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_STRING_EQUAL(given->set.item[i], set[i]);
        CU_ASSERT_STRING_EQUAL(given->list.item[i], list[i]);
    }
    nib_options_free(&call);
}

static void numbers_are_values(void) {
    struct nib_call call;
    struct nib_error error;
    NIB_OK_OR_FAIL(parse(&call, &error, "-1.5", "-.5", "-inf", "-0x1p3,2", "--", "--json", NULL), error);
    static const char *const values[] = {"-1.5", "-.5", "-inf", "-0x1p3,2", "--json"};
    CU_ASSERT_FATAL(call.value_count == 5);
    for (size_t i = 0; i < 5; i++) CU_ASSERT_STRING_EQUAL(call.values[i], values[i]);
    CU_ASSERT(!call.common.json);
    nib_options_free(&call);
}

static void a_wrong_word_is_named_with_what_was_expected(void) {
    static const struct {
        const char *word, *next, *text;
    } cases[] = {
        {"--width", "0", "test: --width expects an integer from 1 to 4096, got \"0\""},
        {"--width", "4097", "test: --width expects an integer from 1 to 4096, got \"4097\""},
        {"--width", "1e3", "test: --width expects an integer from 1 to 4096, got \"1e3\""},
        {"--width=", NULL, "test: --width expects an integer from 1 to 4096, got \"\""},
        {"-w", NULL, "test: -w expects a value N"},
        {"--tail", "1.5", "test: --tail expects a number from -1 to 1, got \"1.5\""},
        {"--tail", "nan", "test: --tail expects a number from -1 to 1, got \"nan\""},
        {"--amax", "-1", "test: --amax expects a number of at least 0, got \"-1\""},
        {"--amax", "1,5", "test: --amax expects a number of at least 0, got \"1,5\""},
        {"--mode", "rnd", "test: --mode expects rne, rna or rtz, got \"rnd\""},
        {"--moed", "rne", "test: unknown option --moed; did you mean --mode?"},
        {"--strict=1", NULL, "test: --strict takes no value, got \"1\""},
        {"--seed", "1", "test: unknown option --seed; 'nibble test --help' lists the options"},
        {"-sx", NULL, "test: unknown option -x; 'nibble test --help' lists the options"},
        {"--threads", "-1", "test: --threads expects an integer from 0 to 4096, got \"-1\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nib_call call;
        struct nib_error error = {0};
        NIB_CHECKF(parse(&call, &error, cases[i].word, cases[i].next, NULL) == NIB_EINVAL, "accepted %s", cases[i].word);
        NIB_CHECKF(strcmp(error.text, cases[i].text) == 0, "%s: got \"%s\"", cases[i].word, error.text);
    }
}

static void too_many_values_are_refused(void) {
    struct nib_call call;
    struct nib_error error = {0};
    CU_ASSERT(parse(&call, &error, "1", "2", "3", "4", "5", "6", NULL) == NIB_EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text, "test: unexpected argument \"6\"; expected VALUE...");
}

static void many_repeated_options_fit(void) {
    enum { COUNT = 3000 };
    char **words = calloc(COUNT, sizeof *words), text[] = "--set=a=1", list[] = "-la,b,c,d";
    CU_ASSERT_FATAL(words != NULL);
    for (int i = 0; i < COUNT; i++) words[i] = i % 2 == 0 ? text : list;
    struct nib_call call = {0};
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_options_parse(&command, COUNT, words, &call, &error), error);
    const struct arguments *given = call.options;
    CU_ASSERT(given->set.count == COUNT / 2 && given->list.count == COUNT * 2);
    CU_ASSERT_STRING_EQUAL(given->list.item[COUNT * 2 - 1], "d");
    nib_options_free(&call);
    free(words);
}

static void no_command_has_two_options_of_one_name(void) {
    struct nib_command one;
    for (size_t c = 0; nib_command_at(c, &one); c++) {
        const struct nib_option *a, *b;
        bool shared;
        for (size_t i = 0; (a = nib_option_any(&one, i, &shared)) != NULL; i++) {
            CU_ASSERT(i < 64); /* bits of nib_call.given */
            for (size_t j = 0; j < i; j++) {
                b = nib_option_any(&one, j, &shared);
                NIB_CHECKF(strcmp(a->name, b->name) != 0, "%s has --%s twice", one.name, a->name);
                NIB_CHECKF(a->alias == 0 || a->alias != b->alias, "%s: -%c is --%s and --%s", one.name, a->alias, b->name,
                           a->name);
            }
        }
    }
}

static void groups_stand_together(void) {
    struct nib_command a, b, c;
    for (size_t i = 0; nib_command_at(i, &a); i++)
        for (size_t j = i + 1; nib_command_at(j, &b) && nib_command_at(j - 1, &c); j++)
            NIB_CHECKF(strcmp(a.group, b.group) != 0 || strcmp(c.group, a.group) == 0, "%s stands apart from its group %s",
                       b.name, b.group);
}

NIB_TEST_MAIN("options", {"nothing given leaves the defaults", nothing_given_leaves_the_defaults},
              {"what is on the command line is known", what_is_on_the_command_line_is_known},
              {"every type is stored", every_type_is_stored},
              {"short options bundle and take the rest", short_options_bundle_and_take_the_rest},
              {"repeated options keep their order", repeated_options_keep_their_order},
              {"numbers are values", numbers_are_values},
              {"a wrong word is named with what was expected", a_wrong_word_is_named_with_what_was_expected},
              {"no command has two options of one name", no_command_has_two_options_of_one_name},
              {"groups stand together", groups_stand_together},
              {"too many values are refused", too_many_values_are_refused},
              {"many repeated options fit", many_repeated_options_fit})
