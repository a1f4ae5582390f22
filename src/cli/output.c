#include "cli/output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/json_out.h"
#include "io/table_out.h"

void nib_output_schema(const struct nib_call *call, char out[64]) {
    snprintf(out, 64, "nibble.%s/1", call->command->name);
}

enum nib_status nib_output_json(const struct nib_call *call, struct nib_json **out, struct nib_error *error) {
    char schema[64];
    nib_output_schema(call, schema);
    return nib_json_begin(stdout, schema, out, error);
}

struct nib_style nib_output_style(const struct nib_call *call, FILE *stream) {
    static const struct nib_style none = {"", "", ""}, styled = {"\033[1m", "\033[2m", "\033[0m"};
    if (call->common.color == NIB_COLOR_ALWAYS) return styled;
    if (call->common.color == NIB_COLOR_NEVER) return none;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color != NULL && no_color[0] != '\0') return none;
    if (term != NULL && strcmp(term, "dumb") == 0) return none;
    return isatty(fileno(stream)) ? styled : none;
}

enum nib_status nib_output_table(const struct nib_call *call, const struct nib_table *table,
                                 const struct nib_layout *layout, struct nib_error *error) {
    if (call->common.json) {
        char schema[64];
        nib_output_schema(call, schema);
        return nib_table_write_json(table, schema, stdout, error);
    }
    if (call->common.tsv) return nib_table_write_tsv(table, stdout, error);
    nib_output_aligned(call, table, layout, stdout);
    return NIB_OK;
}

double nib_output_number(double value) { return isnan(value) ? (double)NAN : value; }

static void one_line(char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F) *text = ' ';
}

void nib_output_error(const struct nib_error *error) {
    if (error->text[0] == '\0') return;
    char line[1024];
    nib_error_format(error, line, sizeof line);
    one_line(line);
    fprintf(stderr, "nibble: %s\n", line);
}

void nib_output_note(const struct nib_call *call, const char *format, ...) {
    if (call->common.quiet) return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    one_line(line);
    fflush(stdout); /* so that the note stands after what it is about, also in one file; failures show at the end */
    fprintf(stderr, "nibble: note: %s\n", line);
}

/* Files are written beside their place and renamed, so a new one has another number. */
struct nib_before nib_output_before(const char *path) {
    struct stat about;
    struct nib_before before = {.path = path, .there = stat(path, &about) == 0 && S_ISREG(about.st_mode)};
    if (before.there) {
        before.device = about.st_dev;
        before.number = about.st_ino;
    }
    return before;
}

void nib_output_note_replaced(const struct nib_call *call, const struct nib_before *before) {
    struct nib_before now = nib_output_before(before->path);
    if (before->there && now.there && (now.device != before->device || now.number != before->number))
        nib_output_note(call, "replaced %s", before->path);
}

enum nib_status nib_output_flush(struct nib_error *error) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return NIB_OK;
    /* What failed earlier is forgotten; one more byte of the broken output meets the same reason. */
    if (errno == 0 && write(fileno(stdout), "\n", 1) == 1) errno = 0;
    /* Whoever closed the pipe has read enough; the exit code tells it, and nothing is wrong to speak of. */
    if (errno == EPIPE) return nib_fail(error, NIB_EIO, "%s", "");
    return nib_fail(error, NIB_EIO, "standard output: %s", errno == 0 ? "write failed" : strerror(errno));
}
