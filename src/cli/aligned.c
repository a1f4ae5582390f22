/* Tables for people: columns as wide as their widest cell, texts to the left, numbers to the right. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cli/output.h"

enum { CELL = 64 };

int nib_output_width(const char *utf8) {
    static locale_t utf8_locale; /* made once, for the life of the program */
    if (utf8_locale == (locale_t)0) utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (utf8_locale == (locale_t)0) return (int)strlen(utf8);
    locale_t saved = uselocale(utf8_locale);
    mbstate_t state = {0};
    int width = 0;
    while (*utf8 != '\0') {
        wchar_t letter;
        size_t length = mbrtowc(&letter, utf8, MB_CUR_MAX, &state);
        if (length == 0 || length > MB_CUR_MAX) { /* not UTF-8: the terminal shows one mark per byte */
            memset(&state, 0, sizeof state);
            length = 1;
            width++;
        } else {
            int columns = wcwidth(letter);
            width += columns > 0 ? columns : 0;
        }
        utf8 += length;
    }
    uselocale(saved);
    return width;
}

static const char *cell_text(const struct nib_table *table, size_t row, size_t i, char buffer[CELL]) {
    const struct nib_column *column = nib_table_column(table, i);
    switch (column->type) {
    case NIB_COLUMN_TEXT: return nib_table_text(table, row, i);
    case NIB_COLUMN_INTEGER: snprintf(buffer, CELL, "%lld", (long long)nib_table_integer(table, row, i)); break;
    case NIB_COLUMN_REAL: {
        double value = nib_table_real(table, row, i);
        if (isnan(value))
            return "-";
        else if (column->digits < 0)
            snprintf(buffer, CELL, "%.*g", -column->digits, value);
        else
            snprintf(buffer, CELL, "%.*f", column->digits, value);
        break;
    }
    }
    return buffer;
}

/* A line in the making: blanks are printed only before something that follows, so that no line ends in one. */
struct line {
    FILE *stream;
    int blanks;
    bool begun; /* a cell has been added */
};

static void add_cell(struct line *line, const char *text, int width, bool right) {
    int room = width - nib_output_width(text);
    line->blanks += (line->begun ? 2 : 0) + (right ? room : 0);
    line->begun = true;
    if (text[0] != '\0') {
        fprintf(line->stream, "%*s%s", line->blanks, "", text);
        line->blanks = 0;
    }
    if (!right) line->blanks += room;
}

static bool shown(const struct nib_layout *layout, size_t i) {
    if (layout == NULL) return true;
    if (layout->grouped && layout->group == i) return false;
    return layout->hidden == NULL || !layout->hidden[i];
}

static const char *heading_of(const struct nib_column *column) {
    return column->heading != NULL ? column->heading : column->name;
}

void nib_output_aligned(const struct nib_call *call, const struct nib_table *table, const struct nib_layout *layout,
                        FILE *stream) {
    struct nib_style style = nib_output_style(call, stream);
    size_t columns = nib_table_columns(table), rows = nib_table_rows(table);
    int *width = calloc(columns + 1, sizeof *width);
    if (width == NULL) return;
    char buffer[CELL];
    for (size_t i = 0; i < columns; i++) {
        if (!shown(layout, i)) continue;
        width[i] = nib_output_width(heading_of(nib_table_column(table, i)));
        for (size_t row = 0; row < rows; row++) {
            int cell = nib_output_width(cell_text(table, row, i, buffer));
            if (cell > width[i]) width[i] = cell;
        }
    }
    int indent = layout != NULL && layout->grouped ? 2 : 0;
    if (layout != NULL && layout->headline != NULL)
        fprintf(stream, "%s%s%s\n\n", style.bold, layout->headline, style.plain);
    fputs(style.dim, stream);
    struct line line = {stream, indent, false};
    for (size_t i = 0; i < columns; i++) {
        if (!shown(layout, i)) continue;
        const struct nib_column *column = nib_table_column(table, i);
        add_cell(&line, heading_of(column), width[i], column->type != NIB_COLUMN_TEXT);
    }
    fprintf(stream, "%s\n", style.plain);
    const char *group = NULL;
    for (size_t row = 0; row < rows; row++) {
        if (layout != NULL && layout->grouped) {
            const char *now = nib_table_text(table, row, layout->group);
            if (group == NULL || strcmp(group, now) != 0) fprintf(stream, "%s%s%s\n", style.bold, now, style.plain);
            group = now;
        }
        line = (struct line){stream, indent, false};
        for (size_t i = 0; i < columns; i++)
            if (shown(layout, i))
                add_cell(&line, cell_text(table, row, i, buffer), width[i],
                         nib_table_column(table, i)->type != NIB_COLUMN_TEXT);
        fputc('\n', stream);
    }
    free(width);
}
