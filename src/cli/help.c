#include "cli/help.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 100, OPTION_COLUMN = 32 };

/* Prints `text` wrapped to `width` columns, every line indented; the first line is already indented by `at` columns. */
static void wrap(const char *text, int at, int indent, int width, FILE *stream) {
    int column = at;
    bool blank = true; /* nothing on this line yet */
    fprintf(stream, "%*s", column < indent ? indent - column : 0, "");
    if (column < indent) column = indent;
    while (*text != '\0') {
        if (*text == '\n') { /* a line end in the text stays one; lines that begin with blanks keep them */
            fputc('\n', stream);
            text++;
            if (*text == '\n') continue;
            size_t blanks = strspn(text, " ");
            if (text[blanks] != '\0') fprintf(stream, "%*s", indent + (int)blanks, "");
            column = indent + (int)blanks;
            text += blanks;
            blank = true;
            continue;
        }
        size_t length = strcspn(text, " \n");
        if (!blank && column + 1 + (int)length > width) {
            fprintf(stream, "\n%*s", indent, "");
            column = indent;
            blank = true;
        }
        if (!blank) {
            fputc(' ', stream);
            column++;
        }
        fwrite(text, 1, length, stream);
        column += (int)length;
        blank = false;
        text += length;
        if (*text == ' ') text += strspn(text, " ");
    }
    fputc('\n', stream);
}

void nib_help_synopsis(const struct nib_command *command, char *out, size_t size) {
    snprintf(out, size, "nibble %s [options]%s%s", command->name, command->values == NULL ? "" : " ",
             command->values == NULL ? "" : command->values);
}

/* "-o, --output FILE" */
static void option_head(const struct nib_option *option, char *out, size_t size) {
    char alias[8] = "    ";
    if (option->alias != 0) snprintf(alias, sizeof alias, "-%c, ", option->alias);
    snprintf(out, size, "%s--%s%s%s", alias, option->name, option->argument == NULL ? "" : " ",
             option->argument == NULL ? "" : option->argument);
}

void nib_help_default(const struct nib_command *command, const struct nib_option *option, bool shared, char *out,
                      size_t size) {
    out[0] = '\0';
    if (shared) {
        if (option->type == NIB_OPTION_CHOICE) snprintf(out, size, "%s", option->choices[0]);
        return;
    }
    if (command->defaults == NULL) return;
    const void *field = (const char *)command->defaults + option->offset;
    switch (option->type) {
    case NIB_OPTION_FLAG:
    case NIB_OPTION_TEXTS:
    case NIB_OPTION_LIST: break;
    case NIB_OPTION_TEXT: {
        const char *text = *(const char *const *)field;
        if (text != NULL) snprintf(out, size, "%s", text);
        break;
    }
    case NIB_OPTION_INTEGER: {
        int64_t integer = *(const int64_t *)field;
        if (integer >= option->low) snprintf(out, size, "%lld", (long long)integer);
        break;
    }
    case NIB_OPTION_REAL: {
        double real = *(const double *)field;
        if (!isnan(real)) snprintf(out, size, "%g", real);
        break;
    }
    case NIB_OPTION_FLOAT: {
        float real = *(const float *)field;
        if (!isnan(real)) snprintf(out, size, "%g", (double)real);
        break;
    }
    case NIB_OPTION_CHOICE: {
        int choice = *(const int *)field;
        if (choice >= 0) snprintf(out, size, "%s", option->choices[choice]);
        break;
    }
    }
}

static void print_option(const struct nib_command *command, const struct nib_option *option, bool shared,
                         FILE *stream) {
    char head[96], value[64], text[1024];
    option_head(option, head, sizeof head);
    nib_help_default(command, option, shared, value, sizeof value);
    size_t used = (size_t)snprintf(text, sizeof text, "%s", option->help);
    if (option->choices != NULL)
        for (size_t i = 0; option->choices[i] != NULL && used < sizeof text; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? ": " : ", ", option->choices[i]);
    if ((option->type == NIB_OPTION_TEXTS || option->type == NIB_OPTION_LIST) && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, " (may be repeated%s)",
                                 option->type == NIB_OPTION_LIST ? ", or separated by commas" : "");
    if (value[0] != '\0' && used < sizeof text) snprintf(text + used, sizeof text - used, " [%s]", value);
    fprintf(stream, "  %s", head);
    int at = 2 + (int)strlen(head);
    if (at + 2 > OPTION_COLUMN) {
        fputc('\n', stream);
        at = 0;
    }
    wrap(text, at, OPTION_COLUMN, WIDTH, stream);
}

void nib_help_command(const struct nib_command *command, FILE *stream, struct nib_style style) {
    char synopsis[256];
    nib_help_synopsis(command, synopsis, sizeof synopsis);
    fprintf(stream, "%s%s%s\n\n", style.bold, synopsis, style.plain);
    wrap(command->description, 0, 0, WIDTH, stream);
    if (command->options != NULL && command->options[0].name != NULL) {
        fprintf(stream, "\n%sOptions%s\n", style.bold, style.plain);
        for (const struct nib_option *option = command->options; option->name != NULL; option++)
            print_option(command, option, false, stream);
    }
    fprintf(stream, "\n%sShared options%s\n", style.bold, style.plain);
    const struct nib_option *option;
    for (size_t i = 0; (option = nib_options_common(command, i)) != NULL; i++)
        print_option(command, option, true, stream);
    if (command->examples == NULL) return;
    fprintf(stream, "\n%sExamples%s\n", style.bold, style.plain);
    for (const struct nib_example *example = command->examples; example->line != NULL; example++) {
        fprintf(stream, "  %s\n", example->line);
        wrap(example->says, 0, 6, WIDTH, stream);
    }
}

void nib_help_overview(FILE *stream, struct nib_style style) {
    fprintf(stream,
            "%snibble COMMAND [options]%s\n\n"
            "4-bit block-scaled number formats (NVFP4, MXFP4, E1M2, grids of your own), bit for bit on the CPU.\n",
            style.bold, style.plain);
    struct nib_command command;
    const char *group = "";
    for (size_t i = 0; nib_command_at(i, &command); i++) {
        if (strcmp(group, command.group) != 0)
            fprintf(stream, "\n%s%s%s\n", style.bold, command.group, style.plain);
        group = command.group;
        fprintf(stream, "  %-12s %s\n", command.name, command.summary);
    }
    fputs("\n'nibble COMMAND --help' explains a command, with examples.\n"
          "Exit codes: 0 done and all checks held, 1 a check failed, 2 usage, 3 input or output, 4 not available here,\n"
          "5 not converged, 130 interrupted.\n",
          stream);
}
