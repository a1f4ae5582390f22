#include "plot/figure.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text_file.h"
#include "plot/embedded.h"
#include "plot/gnuplot.h"
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct nib_figure {
    const struct nib_plot_script *style, *script;
    double width, height; /* cm */
    char *data;           /* statements and blocks so far */
    size_t length;
    FILE *stream;
    locale_t plain; /* numbers with a decimal point */
};

static const struct nib_plot_script *find(const char *name) {
    for (size_t i = 0; i < nib_plot_script_count; i++)
        if (strcmp(nib_plot_scripts[i].name, name) == 0) return &nib_plot_scripts[i];
    return NULL;
}

enum nib_status nib_figure_new(const char *name, struct nib_figure **out, struct nib_error *error) {
    const struct nib_plot_script *script = find(name), *style = find("style");
    if (script == NULL || style == NULL) return nib_fail(error, NIB_ENOTFOUND, "no figure \"%s\"", name);
    struct nib_figure *figure = nib_alloc(1, sizeof *figure, "a figure", error);
    if (figure == NULL) return NIB_ENOMEM;
    figure->script = script;
    figure->style = style;
    figure->width = 18;
    figure->height = 9;
    figure->plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    figure->stream = open_memstream(&figure->data, &figure->length);
    if (figure->plain == (locale_t)0 || figure->stream == NULL) {
        nib_figure_free(figure);
        return nib_fail(error, NIB_ENOMEM, "a figure: out of memory");
    }
    *out = figure;
    return NIB_OK;
}

void nib_figure_free(struct nib_figure *figure) {
    if (figure == NULL) return;
    if (figure->stream != NULL) fclose(figure->stream);
    if (figure->plain != (locale_t)0) freelocale(figure->plain);
    free(figure->data);
    free(figure);
}

/* In single quotes gnuplot knows one escape: two quotes are one. */
static void write_quoted(FILE *stream, const char *text) {
    fputc('\'', stream);
    for (; *text != '\0'; text++) {
        if (*text == '\'') fputc('\'', stream);
        fputc(*text == '\n' ? ' ' : *text, stream);
    }
    fputc('\'', stream);
}

void nib_figure_text(struct nib_figure *figure, const char *variable, const char *value) {
    fprintf(figure->stream, "%s = ", variable);
    write_quoted(figure->stream, value);
    fputc('\n', figure->stream);
}

void nib_figure_texts(struct nib_figure *figure, const char *name, const char *const *texts, size_t count) {
    nib_figure_line(figure, "array %s[%zu]", name, count);
    for (size_t i = 0; i < count; i++) {
        char element[64];
        snprintf(element, sizeof element, "%s[%zu]", name, i + 1);
        nib_figure_text(figure, element, texts[i]);
    }
}

void nib_figure_number(struct nib_figure *figure, const char *variable, double value) {
    nib_figure_line(figure, "%s = %.17g", variable, value);
}

void nib_figure_size(struct nib_figure *figure, double width_cm, double height_cm) {
    figure->width = width_cm;
    figure->height = height_cm;
}

void nib_figure_block(struct nib_figure *figure, const char *name) { fprintf(figure->stream, "$%s << EOD\n", name); }
void nib_figure_end(struct nib_figure *figure) { fputs("EOD\n", figure->stream); }

void nib_figure_line(struct nib_figure *figure, const char *format, ...) {
    locale_t saved = uselocale(figure->plain);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(figure->stream, format, arguments);
    va_end(arguments);
    uselocale(saved);
    fputc('\n', figure->stream);
}

const char *nib_figure_quote(const char *text, char out[static 160]) {
    size_t n = 0;
    out[n++] = '"';
    for (; *text != '\0' && n < 157; text++)
        out[n++] = (unsigned char)*text < 0x20 ? ' ' : *text == '"' || *text == '\\' ? '\'' : *text;
    while ((out[n - 1] & 0xC0) == 0x80 && *text != '\0' && ((unsigned char)*text & 0xC0) == 0x80) n--; /* cut letter */
    out[n++] = '"';
    out[n] = '\0';
    return out;
}

/* The whole script; `format` and `out` may be given on gnuplot's command line. */
static bool write_script(const struct nib_figure *figure, const char *prefix, FILE *stream) {
    locale_t saved = uselocale(figure->plain);
    fputs("# gnuplot FILE draws the PNG, gnuplot -e \"format='pdf'\" FILE the PDF.\n"
          "if (!exists('format')) format = 'png'\n"
          "if (!exists('out')) out = ",
          stream);
    write_quoted(stream, prefix);
    fprintf(stream,
            " . '.' . format\n"
            "if (format eq 'pdf') {\n"
            "    set terminal pdfcairo noenhanced size %.4gcm, %.4gcm font 'Sans,9' linewidth 1\n"
            "}\nif (format eq 'svg') {\n"
            "    set terminal svg noenhanced size %.0f, %.0f font 'Sans,12'\n"
            "}\nif (format eq 'png') {\n"
            "    set terminal pngcairo noenhanced size %.0f, %.0f font 'Sans,9' fontscale 2.2 linewidth 2.2 pointscale 2.2\n"
            "}\nset output out\n\n",
            figure->width, figure->height, figure->width * 40, figure->height * 40, figure->width * 88, figure->height * 88);
    uselocale(saved);
    fwrite(figure->data, 1, figure->length, stream);
    fprintf(stream, "\n%s\n%s\nset output\n", (const char *)figure->style->text, (const char *)figure->script->text);
    return !ferror(stream);
}

static enum nib_status save_script(const struct nib_figure *figure, const char *prefix, const char *path,
                                   struct nib_error *error) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    bool written = stream != NULL && write_script(figure, prefix, stream);
    if (stream != NULL && fclose(stream) != 0) written = false;
    enum nib_status status = written ? nib_text_file_write(path, text, error)
                                     : nib_fail(error, NIB_ENOMEM, "out of memory for the script of a figure");
    free(text);
    return status;
}

enum nib_status nib_figure_write(struct nib_figure *figure, const char *prefix, struct nib_error *error) {
    static const char *const formats[] = {"png", "pdf"};
    enum nib_status status = NIB_OK;
    char script[4096];
    if (strlen(prefix) > 4000 || prefix[0] == '\0' || strchr(prefix, '\n') != NULL)
        status = nib_fail(error, NIB_EINVAL, "a figure cannot be named \"%.40s\"", prefix);
    if (status == NIB_OK && fflush(figure->stream) != 0) status = nib_fail(error, NIB_ENOMEM, "a figure: out of memory");
    if (status == NIB_OK) {
        snprintf(script, sizeof script, "%s.gp", prefix);
        status = save_script(figure, prefix, script, error);
    }
    for (size_t i = 0; status == NIB_OK && i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%s", prefix, formats[i]);
        status = nib_gnuplot_draw(script, formats[i], path, error);
    }
    nib_figure_free(figure);
    return status;
}

enum nib_status nib_figure_draw(struct nib_figure *figure, const char *path, const char *script, struct nib_error *error) {
    static const char *const formats[] = {"png", "pdf", "svg"};
    enum nib_status status = NIB_OK;
    const char *dot = strrchr(path, '.'), *format = NULL;
    char own[4200];
    for (size_t i = 0; i < 3 && dot != NULL; i++)
        if (strcmp(dot + 1, formats[i]) == 0) format = formats[i];
    if (strlen(path) > 4000 || strchr(path, '\n') != NULL || format == NULL)
        status = nib_fail(error, NIB_EINVAL, "a figure cannot be named \"%.80s\"; expected a name that ends in .png, .pdf or .svg",
                          path);
    if (status == NIB_OK && fflush(figure->stream) != 0) status = nib_fail(error, NIB_ENOMEM, "a figure: out of memory");
    if (status == NIB_OK) {
        snprintf(own, sizeof own, "%s.gp.part", path);
        char *prefix = strndup(path, (size_t)(dot - path));
        if (prefix == NULL)
            status = nib_fail(error, NIB_ENOMEM, "a figure: out of memory");
        else
            status = save_script(figure, prefix, script != NULL ? script : own, error);
        free(prefix);
        if (status == NIB_OK) {
            status = nib_gnuplot_draw(script != NULL ? script : own, format, path, error);
            if (script == NULL) unlink(own);
            if (script == NULL && status == NIB_EUNAVAILABLE)
                status = nib_fail(error, status, "gnuplot cannot be started; --script FILE keeps what it would draw");
        }
    }
    nib_figure_free(figure);
    return status;
}
