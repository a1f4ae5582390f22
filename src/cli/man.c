#include <ctype.h>
#include <nibble/version.h>
#include <string.h>

#include "cli/help.h"
#include "cli/pages.h"

/* Text as roff: no word is taken for a request or an escape. */
static void roff(const char *text, FILE *stream) {
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\'')) fputs("\\&", stream);
        switch (*text) {
        case '\\': fputs("\\e", stream); break;
        case '-': fputs("\\-", stream); break;
        case '\'': fputs("\\(aq", stream); break;
        case '^': fputs("\\(ha", stream); break;
        case '~': fputs("\\(ti", stream); break;
        case '`': fputs("\\(ga", stream); break;
        default: fputc(*text, stream);
        }
        line_start = *text == '\n';
    }
}

/* Paragraphs; a line that begins with blanks is kept as it stands. */
static void roff_paragraphs(const char *text, FILE *stream) {
    bool verbatim = false, first = true;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        bool indented = line[0] == ' ';
        if (indented != verbatim) {
            fputs(indented ? ".PP\n.nf\n" : ".fi\n", stream);
            verbatim = indented;
        }
        if (line[0] == '\0')
            fputs(verbatim ? "\n" : ".PP\n", stream);
        else if (length < sizeof line) {
            roff(line, stream);
            fputc('\n', stream);
        } else { /* a paragraph longer than the buffer: in pieces, cut at a blank */
            size_t cut = sizeof line - 1;
            while (cut > 1 && text[cut] != ' ') cut--;
            line[cut] = '\0';
            roff(line, stream);
            fputc('\n', stream);
            text += cut + 1;
            first = false;
            continue;
        }
        text += length;
        if (*text == '\n') text++;
        first = false;
    }
    if (verbatim) fputs(".fi\n", stream);
    if (first) fputc('\n', stream);
}

static void title(const char *name, FILE *stream) {
    fputs(".TH ", stream);
    for (const char *c = name; *c != '\0'; c++)
        if (*c == '-')
            fputs("\\-", stream);
        else
            fputc(toupper((unsigned char)*c), stream);
    fprintf(stream, " 1 \"\" \"nibble %s\" \"User Commands\"\n", nib_version());
}

static void man_option(const struct nib_command *command, const struct nib_option *option, bool shared, FILE *stream) {
    char value[64];
    nib_help_default(command, option, shared, value, sizeof value);
    fputs(".TP\n", stream);
    if (option->alias != 0) fprintf(stream, "\\fB\\-%c\\fR, ", option->alias);
    fputs("\\fB\\-\\-", stream);
    roff(option->name, stream);
    fputs("\\fR", stream);
    if (option->argument != NULL) fprintf(stream, " \\fI%s\\fR", option->argument);
    fputc('\n', stream);
    roff(option->help, stream);
    if (option->choices != NULL)
        for (size_t i = 0; option->choices[i] != NULL; i++) {
            fputs(i == 0 ? ": " : ", ", stream);
            roff(option->choices[i], stream);
        }
    if (option->type == NIB_OPTION_TEXTS) fputs(" (may be repeated)", stream);
    if (option->type == NIB_OPTION_LIST) fputs(" (may be repeated, or separated by commas)", stream);
    if (value[0] != '\0') {
        fputs(" [", stream);
        roff(value, stream);
        fputc(']', stream);
    }
    fputc('\n', stream);
}

void nib_man_command(const struct nib_command *command, FILE *stream) {
    char text[256];
    snprintf(text, sizeof text, "nibble-%s", command->name);
    title(text, stream);
    fprintf(stream, ".SH NAME\nnibble\\-%s \\- ", command->name);
    roff(command->summary, stream);
    fputs("\n.SH SYNOPSIS\n.B ", stream);
    nib_help_synopsis(command, text, sizeof text);
    roff(text, stream);
    fputs("\n.SH DESCRIPTION\n", stream);
    roff_paragraphs(command->description, stream);
    fputs(".SH OPTIONS\n", stream);
    const struct nib_option *option;
    bool shared;
    for (size_t i = 0; (option = nib_option_any(command, i, &shared)) != NULL; i++)
        man_option(command, option, shared, stream);
    if (command->examples != NULL) {
        fputs(".SH EXAMPLES\n", stream);
        for (const struct nib_example *example = command->examples; example->line != NULL; example++) {
            fputs(".TP\n.B ", stream);
            roff(example->line, stream);
            fputc('\n', stream);
            roff(example->says, stream);
            fputc('\n', stream);
        }
    }
    fputs(".SH SEE ALSO\n.BR nibble (1)\n", stream);
}

void nib_man_overview(FILE *stream) {
    title("nibble", stream);
    fputs(".SH NAME\nnibble \\- 4\\-bit block\\-scaled number formats, bit for bit\n"
          ".SH SYNOPSIS\n.B nibble COMMAND [options]\n.SH DESCRIPTION\n"
          "Emulates 4\\-bit block\\-scaled number formats (NVFP4, MXFP4, E1M2, grids of your own) on the CPU, and\n"
          "measures what they do to real tensors. Results go to the standard output as a table, or as JSON or\n"
          "tab\\-separated values.\n.SH COMMANDS\n",
          stream);
    struct nib_command command;
    for (size_t i = 0; nib_command_at(i, &command); i++) {
        fprintf(stream, ".TP\n.BR nibble\\-%s (1)\n", command.name);
        roff(command.summary, stream);
        fputc('\n', stream);
    }
    fputs(".SH EXIT STATUS\n"
          ".TP\n0\ndone, and all checks held\n.TP\n1\na comparison or check failed\n.TP\n2\nwrong usage\n"
          ".TP\n3\ninput or output failed\n.TP\n4\nnot available on this machine\n"
          ".TP\n5\na numerical method did not converge\n.TP\n130\ninterrupted\n"
          ".SH ENVIRONMENT\n"
          ".TP\nOMP_NUM_THREADS\nthreads to use where \\-\\-threads is not given\n"
          ".TP\nNIBBLE_ISA\ninstruction set of the fast paths: generic, avx2 or avx512; results do not depend on it\n"
          ".TP\nNO_COLOR\nno colours on the terminal\n",
          stream);
}
