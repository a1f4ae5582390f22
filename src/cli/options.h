/* Declarative option tables. One table per command drives parsing, help, man pages and completion.
 *
 *     struct arguments { const char *format; int mode; int64_t width; };
 *     static const struct arguments defaults = {.width = 16};
 *     static const struct nib_option options[] = {
 *         NIB_OPT_TEXT(struct arguments, format, "format", 'f', "FORMAT", "element or scale format"),
 *         NIB_OPT_INTEGER(struct arguments, width, "width", 0, "N", 1, 4096, "block length"),
 *         NIB_OPT_END};
 *
 * The name of the argument chooses the completion: FILE completes paths; ELEMENT, SCALE, BLOCK, QUANTIZER, ROTATION and
 * FORMAT complete names that `nibble list` knows. */
#ifndef NIB_CLI_OPTIONS_H
#define NIB_CLI_OPTIONS_H

#include <nibble/status.h>
#include <stddef.h>

/* Values of an option that may be given several times, in the order given. */
struct nib_texts {
    const char *const *item;
    size_t count;
};

enum nib_option_type {
    NIB_OPTION_FLAG,    /* bool */
    NIB_OPTION_TEXT,    /* const char *, NULL when not given */
    NIB_OPTION_TEXTS,   /* struct nib_texts: may be repeated */
    NIB_OPTION_LIST,    /* struct nib_texts: may be repeated, and each value is split at commas */
    NIB_OPTION_INTEGER, /* int64_t in [low, high] */
    NIB_OPTION_REAL,    /* double in [real_low, real_high] */
    NIB_OPTION_FLOAT,   /* the same in binary32, rounded to nearest */
    NIB_OPTION_CHOICE   /* int: index into choices */
};

struct nib_option {
    const char *name; /* long name without dashes; NULL ends the table */
    char alias;       /* short name, or 0 */
    enum nib_option_type type;
    size_t offset;        /* of the field in the command's struct */
    const char *argument; /* its name in help ("FILE"), NULL for flags */
    const char *help;     /* lower case, no full stop */
    int64_t low, high;
    double real_low, real_high;
    const char *const *choices; /* NULL-terminated */
};

/* The offset of a field, and a compile-time check that it has the type that the option stores. */
#define NIB_OPT_FIELD(structure, field, type) \
    (offsetof(structure, field) + 0 * sizeof(_Generic(((structure *)0)->field, type : 0)))

#define NIB_OPT_FLAG(S, field, name, alias, help) \
    {name, alias, NIB_OPTION_FLAG, NIB_OPT_FIELD(S, field, bool), NULL, help, 0, 0, 0, 0, NULL}
#define NIB_OPT_TEXT(S, field, name, alias, argument, help) \
    {name, alias, NIB_OPTION_TEXT, NIB_OPT_FIELD(S, field, const char *), argument, help, 0, 0, 0, 0, NULL}
#define NIB_OPT_TEXTS(S, field, name, alias, argument, help) \
    {name, alias, NIB_OPTION_TEXTS, NIB_OPT_FIELD(S, field, struct nib_texts), argument, help, 0, 0, 0, 0, NULL}
#define NIB_OPT_LIST(S, field, name, alias, argument, help) \
    {name, alias, NIB_OPTION_LIST, NIB_OPT_FIELD(S, field, struct nib_texts), argument, help, 0, 0, 0, 0, NULL}
#define NIB_OPT_INTEGER(S, field, name, alias, argument, low, high, help) \
    {name, alias, NIB_OPTION_INTEGER, NIB_OPT_FIELD(S, field, int64_t), argument, help, low, high, 0, 0, NULL}
#define NIB_OPT_REAL(S, field, name, alias, argument, low, high, help) \
    {name, alias, NIB_OPTION_REAL, NIB_OPT_FIELD(S, field, double), argument, help, 0, 0, low, high, NULL}
#define NIB_OPT_FLOAT(S, field, name, alias, argument, low, high, help) \
    {name, alias, NIB_OPTION_FLOAT, NIB_OPT_FIELD(S, field, float), argument, help, 0, 0, low, high, NULL}
#define NIB_OPT_CHOICE(S, field, name, alias, argument, choices, help) \
    {name, alias, NIB_OPTION_CHOICE, NIB_OPT_FIELD(S, field, int), argument, help, 0, 0, 0, 0, choices}
#define NIB_OPT_END {NULL, 0, NIB_OPTION_FLAG, 0, NULL, NULL, 0, 0, 0, 0, NULL}

struct nib_command;
struct nib_call;

/* Fills `call` from the words after the command's name. Unknown options suggest the nearest one. Words that look like
 * numbers ("-1.5", "-.5", "-inf") are values, not options; "--" ends the options. */
NIB_CHECK enum nib_status nib_options_parse(const struct nib_command *command, int count, char **words,
                                            struct nib_call *call, struct nib_error *error);
void nib_options_free(struct nib_call *call);

/* Whether the option is on the command line, even with its default for a value. */
bool nib_option_given(const struct nib_call *call, const char *name);
/* For options that do not apply to this call: NIB_EINVAL for the first of `names` (ended by NULL) that is given, as in
 * "bench: --shape goes with bench gemm", where `why` is what follows the name. */
NIB_CHECK enum nib_status nib_options_refuse(const struct nib_call *call, const char *const *names, const char *why,
                                             struct nib_error *error);

/* The options that all commands share, as far as the command takes them; `i` counts from 0, NULL past the end. Offsets
 * are into struct nib_common. */
const struct nib_option *nib_options_common(const struct nib_command *command, size_t i);

#endif
