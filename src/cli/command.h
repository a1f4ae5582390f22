/* What a command is, and what a call of it holds. */
#ifndef NIB_CLI_COMMAND_H
#define NIB_CLI_COMMAND_H

#include "cli/options.h"

enum nib_color { NIB_COLOR_AUTO, NIB_COLOR_ALWAYS, NIB_COLOR_NEVER };

/* The shared options. */
struct nib_common {
    bool help, json, tsv, quiet;
    const char *output; /* -o, NULL when not given */
    int64_t threads;    /* 0: OMP_NUM_THREADS or all */
    int64_t seed;
    int color; /* enum nib_color */
};

/* Shared options that a command takes besides --help, --color and --quiet. */
enum nib_takes {
    NIB_TAKES_JSON = 1, /* --json and --tsv */
    NIB_TAKES_OUTPUT = 2,
    NIB_TAKES_THREADS = 4,
    NIB_TAKES_SEED = 8,
    NIB_TAKES_JSON_ONLY = 16 /* --json, for a result that is no table */
};

/* One call of a command. */
struct nib_call {
    const struct nib_command *command;
    const void *options; /* the command's own struct */
    uint64_t given;      /* which options are on the command line; see nib_option_given */
    struct nib_common common;
    const char **values; /* positional arguments */
    size_t value_count;
    bool check_failed;   /* set by the command: all ran well, but a check or comparison failed (exit 1) */
    void *storage;       /* what nib_options_free releases */
    int argc;            /* the whole command line, for provenance */
    char **argv;
};

struct nib_example {
    const char *line; /* "nibble round --format e2m1 2.5 -0.75" */
    const char *says; /* "what it shows", one line */
};

struct nib_command {
    const char *values;      /* synopsis of the positional arguments: "FILE[:tensor]..."; NULL for none */
    size_t least, most;      /* how many of them */
    const char *description; /* paragraphs of plain text, wrapped by the writer of the help */
    const struct nib_option *options; /* own options, ended by NIB_OPT_END; NULL for none */
    const void *defaults;             /* initial contents of the own struct */
    size_t size;                      /* of the own struct */
    unsigned takes;                   /* enum nib_takes */
    const struct nib_example *examples; /* ended by a NULL line */
    enum nib_status (*run)(struct nib_call *call, struct nib_error *error);
    /* From commands.def: */
    const char *name, *group, *summary;
};

/* One definition per file cmd_<name>.c: NIB_COMMAND(name) = {...}; without the last three fields. */
#define NIB_COMMAND(name) const struct nib_command nib_command_##name

/* All commands in the order of commands.def; `i` counts from 0, false past the end. */
bool nib_command_at(size_t i, struct nib_command *out);
/* By name; NIB_EINVAL suggests the nearest. */
NIB_CHECK enum nib_status nib_command_find(const char *name, struct nib_command *out, struct nib_error *error);

#endif
