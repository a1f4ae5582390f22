#include "cli/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/suggest.h"
#include "cli/command.h"

static const char *const colors[] = {"auto", "always", "never", NULL};

static const struct {
    unsigned needs; /* any of these of enum nib_takes; 0: every command */
    struct nib_option option;
} common[] = {
    {NIB_TAKES_JSON | NIB_TAKES_JSON_ONLY, NIB_OPT_FLAG(struct nib_common, json, "json", 0, "print JSON")},
    {NIB_TAKES_JSON, NIB_OPT_FLAG(struct nib_common, tsv, "tsv", 0, "print tab-separated values")},
    {NIB_TAKES_OUTPUT, NIB_OPT_TEXT(struct nib_common, output, "output", 'o', "FILE.h5", "write the result as HDF5; a file that is there is replaced")},
    {NIB_TAKES_THREADS, NIB_OPT_INTEGER(struct nib_common, threads, "threads", 't', "N", 0, 4096,
                                        "threads to use; 0 for OMP_NUM_THREADS or all")},
    {NIB_TAKES_SEED, NIB_OPT_INTEGER(struct nib_common, seed, "seed", 0, "N", 0, INT64_MAX,
                                     "seed of the random numbers")},
    {0, NIB_OPT_FLAG(struct nib_common, quiet, "quiet", 0, "no progress and no notes on stderr")},
    {0, NIB_OPT_CHOICE(struct nib_common, color, "color", 0, "WHEN", colors, "colour the terminal output")},
    {0, NIB_OPT_FLAG(struct nib_common, help, "help", 'h', "explain the command and stop")},
};

const struct nib_option *nib_options_common(const struct nib_command *command, size_t i) {
    for (size_t k = 0; k < sizeof common / sizeof *common; k++) {
        if (common[k].needs != 0 && (common[k].needs & command->takes) == 0) continue;
        if (i-- == 0) return &common[k].option;
    }
    return NULL;
}

/* What one parse needs. */
struct parse {
    const struct nib_command *command;
    struct nib_call *call;
    char *own;         /* the command's struct */
    const char **pool; /* room for every text of repeated options */
    size_t pool_used;
    struct nib_error *error;
};

static const struct nib_option *option_at(const struct parse *parse, size_t i, bool *shared) {
    size_t own = 0;
    if (parse->command->options != NULL)
        for (; parse->command->options[own].name != NULL; own++)
            if (i == own) {
                *shared = false;
                return &parse->command->options[i];
            }
    *shared = true;
    return nib_options_common(parse->command, i - own);
}

static const char *name_at(size_t i, const void *context) {
    bool shared;
    const struct nib_option *option = option_at(context, i, &shared);
    return option == NULL ? NULL : option->name;
}

static enum nib_status refuse(struct parse *parse, const struct nib_option *option, const char *expected,
                              const char *value) {
    return nib_fail(parse->error, NIB_EINVAL, "%s: --%s expects %s, got \"%s\"", parse->command->name, option->name,
                    expected, value);
}

/* Appends to a repeated option. All values of one option must be adjacent in memory, so a longer run is moved to the
 * end of the pool; the pool has room for the square of the number of values. */
static void append(struct parse *parse, struct nib_texts *texts, const char *value) {
    const char **room = parse->pool + parse->pool_used;
    if (texts->count > 0) memcpy(room, texts->item, texts->count * sizeof *room);
    room[texts->count] = value;
    texts->item = room;
    texts->count++;
    parse->pool_used += texts->count;
}

static enum nib_status store_choice(struct parse *parse, const struct nib_option *option, int *field,
                                    const char *value) {
    char expected[256] = "";
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], value) == 0) {
            *field = i;
            return NIB_OK;
        }
        const char *separator = i == 0 ? "" : option->choices[i + 1] == NULL ? " or " : ", ";
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", separator, option->choices[i]);
    }
    return refuse(parse, option, expected, value);
}

static enum nib_status store_real(struct parse *parse, const struct nib_option *option, void *field,
                                  const char *value) {
    char expected[128];
    if (isfinite(option->real_low) && !isfinite(option->real_high))
        snprintf(expected, sizeof expected, "a number of at least %g", option->real_low);
    else if (isfinite(option->real_low) || isfinite(option->real_high))
        snprintf(expected, sizeof expected, "a number from %g to %g", option->real_low, option->real_high);
    else
        snprintf(expected, sizeof expected, "a number");
    if (option->type == NIB_OPTION_FLOAT) {
        float number;
        if (!nib_number_float(value, &number) || number < option->real_low || number > option->real_high)
            return refuse(parse, option, expected, value);
        memcpy(field, &number, sizeof number);
    } else {
        double number;
        if (!nib_number_double(value, &number) || number < option->real_low || number > option->real_high)
            return refuse(parse, option, expected, value);
        memcpy(field, &number, sizeof number);
    }
    return NIB_OK;
}

/* Every option has a bit: own ones by their place in the table, shared ones from the top down. */
static uint64_t bit_of(const struct nib_command *command, const struct nib_option *option, bool shared) {
    if (!shared) return UINT64_C(1) << (option - command->options);
    size_t at = 0;
    while (at < sizeof common / sizeof *common && &common[at].option != option) at++;
    return UINT64_C(1) << (63 - at);
}

static enum nib_status store(struct parse *parse, const struct nib_option *option, bool shared, char *value) {
    parse->call->given |= bit_of(parse->command, option, shared);
    bool text = option->type == NIB_OPTION_TEXT || option->type == NIB_OPTION_TEXTS || option->type == NIB_OPTION_LIST;
    if (text && value[0] == '\0') return refuse(parse, option, option->argument, value);
    char *field = (shared ? (char *)&parse->call->common : parse->own) + option->offset;
    int64_t integer;
    char expected[96];
    switch (option->type) {
    case NIB_OPTION_FLAG: *(bool *)(void *)field = true; return NIB_OK;
    case NIB_OPTION_TEXT: *(const char **)(void *)field = value; return NIB_OK;
    case NIB_OPTION_TEXTS: append(parse, (struct nib_texts *)(void *)field, value); return NIB_OK;
    case NIB_OPTION_LIST:
        for (char *comma; (comma = strchr(value, ',')) != NULL; value = comma + 1) {
            *comma = '\0';
            append(parse, (struct nib_texts *)(void *)field, value);
        }
        append(parse, (struct nib_texts *)(void *)field, value);
        return NIB_OK;
    case NIB_OPTION_INTEGER:
        if (!nib_number_integer(value, option->low, option->high, &integer)) {
            if (option->high == INT64_MAX)
                snprintf(expected, sizeof expected, "an integer of at least %lld", (long long)option->low);
            else
                snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)option->low,
                         (long long)option->high);
            return refuse(parse, option, expected, value);
        }
        *(int64_t *)(void *)field = integer;
        return NIB_OK;
    case NIB_OPTION_REAL:
    case NIB_OPTION_FLOAT: return store_real(parse, option, field, value);
    case NIB_OPTION_CHOICE: return store_choice(parse, option, (int *)(void *)field, value);
    }
    return NIB_OK;
}

/* "-1.5", "-.5", "-0x1p3", "-inf", "-nan" and lists that begin so are values; no option has a digit for a name. */
static bool looks_like_number(const char *word) {
    const char *rest = word + 1;
    if (*rest == '.') rest++;
    return (*rest >= '0' && *rest <= '9') || strncmp(word, "-inf", 4) == 0 || strncmp(word, "-nan", 4) == 0;
}

static enum nib_status long_option(struct parse *parse, char *word, int count, char **words, int *at) {
    char *equals = strchr(word, '=');
    if (equals != NULL) *equals = '\0';
    const struct nib_option *option;
    bool shared;
    for (size_t i = 0; (option = option_at(parse, i, &shared)) != NULL; i++)
        if (strcmp(option->name, word + 2) == 0) break;
    const char *command = parse->command->name;
    if (option == NULL) {
        const char *near = nib_suggest(word + 2, name_at, parse);
        if (near != NULL)
            return nib_fail(parse->error, NIB_EINVAL, "%s: unknown option %s; did you mean --%s?", command, word, near);
        return nib_fail(parse->error, NIB_EINVAL, "%s: unknown option %s; 'nibble %s --help' lists the options",
                        command, word, command);
    }
    char *value = equals == NULL ? NULL : equals + 1;
    if (option->type == NIB_OPTION_FLAG && value != NULL)
        return nib_fail(parse->error, NIB_EINVAL, "%s: --%s takes no value, got \"%s\"", command, option->name, value);
    if (option->type != NIB_OPTION_FLAG && value == NULL) {
        if (*at + 1 >= count)
            return nib_fail(parse->error, NIB_EINVAL, "%s: --%s expects a value %s", command, option->name,
                            option->argument);
        value = words[++*at];
    }
    return store(parse, option, shared, value);
}

static enum nib_status short_options(struct parse *parse, char *word, int count, char **words, int *at) {
    const char *command = parse->command->name;
    for (char *letter = word + 1; *letter != '\0'; letter++) {
        const struct nib_option *option;
        bool shared;
        for (size_t i = 0; (option = option_at(parse, i, &shared)) != NULL; i++)
            if (option->alias != 0 && option->alias == *letter) break;
        if (option == NULL)
            return nib_fail(parse->error, NIB_EINVAL, "%s: unknown option -%c; 'nibble %s --help' lists the options",
                            command, *letter, command);
        char *value = NULL;
        if (option->type != NIB_OPTION_FLAG) {
            value = letter[1] != '\0' ? letter + 1 : *at + 1 < count ? words[++*at] : NULL;
            if (value == NULL)
                return nib_fail(parse->error, NIB_EINVAL, "%s: -%c expects a value %s", command, *letter,
                                option->argument);
        }
        enum nib_status status = store(parse, option, shared, value);
        if (status != NIB_OK || value != NULL) return status;
    }
    return NIB_OK;
}

/* -o writes HDF5, whatever the name says; a name that says something else is a misunderstanding. */
static enum nib_status check_output(const struct nib_command *command, const char *path, struct nib_error *error) {
    static const char *const endings[] = {".h5", ".hdf5", ".nc"};
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1, *dot = strrchr(name, '.');
    if (dot == NULL || dot == name) return NIB_OK;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0) return NIB_OK;
    bool json = strcasecmp(dot, ".json") == 0 && (command->takes & (NIB_TAKES_JSON | NIB_TAKES_JSON_ONLY)) != 0;
    bool tsv = (strcasecmp(dot, ".tsv") == 0 || strcasecmp(dot, ".csv") == 0 || strcasecmp(dot, ".txt") == 0) &&
               (command->takes & NIB_TAKES_JSON) != 0;
    return nib_fail(error, NIB_EINVAL,
                    "%s: -o writes HDF5; expected a name that ends in .h5, .hdf5 or .nc, got \"%s\"%s", command->name,
                    path,
                    json  ? "; for JSON, --json and > FILE"
                    : tsv ? "; for tab-separated values, --tsv and > FILE"
                          : "");
}

static enum nib_status check_values(const struct nib_command *command, const struct nib_call *call,
                                    struct nib_error *error) {
    if (call->value_count > command->most)
        return nib_fail(error, NIB_EINVAL, "%s: unexpected argument \"%s\"%s%s", command->name,
                        call->values[command->most], command->values == NULL ? "" : "; expected ",
                        command->values == NULL ? "" : command->values);
    if (call->value_count < command->least)
        return nib_fail(error, NIB_EINVAL, "%s: missing argument; expected %s", command->name, command->values);
    if (call->common.json && call->common.tsv)
        return nib_fail(error, NIB_EINVAL, "%s: --json and --tsv exclude each other", command->name);
    return call->common.output == NULL ? NIB_OK : check_output(command, call->common.output, error);
}

/* How many texts repeated options can hold at most. */
static size_t pool_size(int count, char **words) {
    size_t values = (size_t)count;
    for (int i = 0; i < count; i++)
        for (const char *c = words[i]; *c != '\0'; c++) values += *c == ',';
    return values * (values + 1) / 2 + 1;
}

enum nib_status nib_options_parse(const struct nib_command *command, int count, char **words, struct nib_call *call,
                                  struct nib_error *error) {
    struct nib_call out = {.command = command, .argc = call->argc, .argv = call->argv};
    /* One block: the command's struct, the positional arguments, the pool, and copies of the words (lists are cut). */
    size_t own = (command->size + 63) / 64 * 64, texts = (size_t)count + 1 + pool_size(count, words), letters = 0;
    for (int i = 0; i < count; i++) letters += strlen(words[i]) + 1;
    char *storage = nib_alloc(1, own + texts * sizeof(char *) + ((size_t)count + 1) * sizeof(char *) + letters,
                              "command line", error);
    if (storage == NULL) return NIB_ENOMEM;
    if (command->defaults != NULL) memcpy(storage, command->defaults, command->size);
    out.storage = storage;
    out.options = storage;
    out.values = (const char **)(void *)(storage + own);
    char **copies = (char **)(void *)(storage + own) + texts;
    char *copy = (char *)(copies + count + 1);
    for (int i = 0; i < count; i++) {
        copies[i] = copy;
        copy = stpcpy(copy, words[i]) + 1;
    }
    struct parse parse = {command, &out, storage, out.values + count + 1, 0, error};
    enum nib_status status = NIB_OK;
    bool options_ended = false;
    for (int i = 0; i < count && status == NIB_OK && !out.common.help; i++) {
        char *word = copies[i];
        if (options_ended || word[0] != '-' || word[1] == '\0' || looks_like_number(word))
            out.values[out.value_count++] = word;
        else if (strcmp(word, "--") == 0)
            options_ended = true;
        else if (word[1] == '-')
            status = long_option(&parse, word, count, copies, &i);
        else
            status = short_options(&parse, word, count, copies, &i);
    }
    if (status == NIB_OK && !out.common.help) status = check_values(command, &out, error);
    if (status != NIB_OK) {
        free(storage);
        return status;
    }
    *call = out;
    return NIB_OK;
}

void nib_options_free(struct nib_call *call) {
    free(call->storage);
    call->storage = NULL;
}

static const struct nib_option *find(const struct nib_command *command, const char *name, bool *shared) {
    const struct parse parse = {.command = command};
    const struct nib_option *option;
    for (size_t i = 0; (option = option_at(&parse, i, shared)) != NULL; i++)
        if (strcmp(option->name, name) == 0) return option;
    return NULL;
}

bool nib_option_given(const struct nib_call *call, const char *name) {
    bool shared;
    const struct nib_option *option = find(call->command, name, &shared);
    return option != NULL && (call->given & bit_of(call->command, option, shared)) != 0;
}

enum nib_status nib_options_refuse(const struct nib_call *call, const char *const *names, const char *why,
                                   struct nib_error *error) {
    for (; *names != NULL; names++)
        if (nib_option_given(call, *names))
            return nib_fail(error, NIB_EINVAL, "%s: --%s %s", call->command->name, *names, why);
    return NIB_OK;
}
