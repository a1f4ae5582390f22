/* A figure of any table. Every row has a place along the abscissa (the values of one key) and a series (those of all other
 * keys that vary); rows that fall together are averaged. Keys that only repeat a measurement (seeds, sequences passed over)
 * make no series: drawn is the mean over them, with the standard error of their spread. */
#include "plot/figure.h"

#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 16, FEW_SERIES = 8, MOST_PLACES = 40, TEXT = 160 };

struct labels {
    char (*text)[TEXT];
    size_t count, capacity;
};

struct drawing {
    const struct nib_table *table;
    bool *drawn;                       /* of a row */
    size_t key[MOST_KEYS], keys;       /* columns that vary */
    size_t repeat[MOST_KEYS], repeats; /* columns over which to average */
    size_t x, measure, error_of; /* columns; SIZE_MAX for none */
    struct labels places, series, runs;
    double *number;                 /* of a place, for a numeric abscissa */
    size_t *place, *serie, *run;    /* of a row */
    double *value, *square, *times; /* by series and place; with repeats first by run too, the innermost */
};

static size_t column_of(const struct nib_table *table, const char *name) {
    for (size_t i = 0; i < nib_table_columns(table); i++)
        if (strcmp(nib_table_column(table, i)->name, name) == 0) return i;
    return SIZE_MAX;
}

static bool is_text(const struct nib_table *table, size_t column) {
    return nib_table_column(table, column)->type == NIB_COLUMN_TEXT;
}

static void cell(const struct nib_table *table, size_t row, size_t column, char *out, size_t size) {
    switch (nib_table_column(table, column)->type) {
    case NIB_COLUMN_TEXT: snprintf(out, size, "%s", nib_table_text(table, row, column)); break;
    case NIB_COLUMN_INTEGER: snprintf(out, size, "%lld", (long long)nib_table_integer(table, row, column)); break;
    case NIB_COLUMN_REAL: snprintf(out, size, "%.6g", nib_table_real(table, row, column)); break;
    }
}

static double number(const struct nib_table *table, size_t row, size_t column) {
    return nib_table_column(table, column)->type == NIB_COLUMN_INTEGER ? (double)nib_table_integer(table, row, column)
                                                                       : nib_table_real(table, row, column);
}

static bool varies(const struct drawing *d, size_t column) {
    char first[TEXT], other[TEXT];
    bool any = false;
    for (size_t row = 0; row < nib_table_rows(d->table); row++) {
        if (!d->drawn[row]) continue;
        cell(d->table, row, column, any ? other : first, TEXT);
        if (any && strcmp(first, other) != 0) return true;
        any = true;
    }
    return false;
}

/* The number of a label; SIZE_MAX when out of memory. */
static size_t label(struct labels *labels, const char *text) {
    for (size_t i = labels->count; i-- > 0;)
        if (strcmp(labels->text[i], text) == 0) return i;
    if (labels->count == labels->capacity) {
        size_t capacity = labels->capacity == 0 ? 64 : 2 * labels->capacity;
        char(*texts)[TEXT] = realloc(labels->text, capacity * sizeof *texts);
        if (texts == NULL) return SIZE_MAX;
        labels->text = texts;
        labels->capacity = capacity;
    }
    snprintf(labels->text[labels->count], TEXT, "%s", text);
    return labels->count++;
}

/* Lists the columns of the table from `first` on; of measures those that are numbers. */
static enum nib_status no_column(const struct nib_table *t, const char *what, size_t first, const char *name,
                                 struct nib_error *error) {
    char known[300] = "";
    size_t used = 0;
    for (size_t i = first; i < nib_table_columns(t); i++) {
        const char *column = nib_table_column(t, i)->name;
        size_t room = sizeof known - used;
        if (is_text(t, i) && first > 0) continue;
        if (strlen(column) + sizeof ", , ..." > room) {
            snprintf(known + used, room, ", ...");
            break;
        }
        used += (size_t)snprintf(known + used, room, "%s%s", used > 0 ? ", " : "", column);
    }
    return nib_fail(error, NIB_ENOTFOUND, "table %s has no %s \"%.60s\"; there is %s", nib_table_name(t), what, name, known);
}

/* Whether `text` is one of a list with commas. */
static bool is_among(const char *list, const char *text) {
    size_t length = strlen(text);
    for (const char *at = list; at != NULL; at = strchr(at, ',') == NULL ? NULL : strchr(at, ',') + 1)
        if (strncmp(at, text, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

/* Rows that meet all conditions. */
static enum nib_status select_rows(struct drawing *d, const struct nib_plot_request *r, struct nib_error *error) {
    const struct nib_table *t = d->table;
    const size_t rows = nib_table_rows(t);
    d->drawn = nib_alloc(rows, sizeof *d->drawn, "a figure", error);
    if (d->drawn == NULL) return NIB_ENOMEM;
    memset(d->drawn, 1, rows * sizeof *d->drawn);
    for (size_t i = 0; i < r->conditions; i++) {
        const char *equals = strchr(r->where[i], '=');
        char name[TEXT], text[TEXT];
        if (equals == NULL || equals == r->where[i])
            return nib_fail(error, NIB_EINVAL, "where: \"%.100s\"; expected COLUMN=VALUE", r->where[i]);
        snprintf(name, sizeof name, "%.*s", (int)(equals - r->where[i]), r->where[i]);
        size_t column = column_of(t, name), left = 0;
        if (column == SIZE_MAX) return no_column(t, "column", 0, name, error);
        for (size_t row = 0; row < rows; row++) {
            cell(t, row, column, text, sizeof text);
            d->drawn[row] = d->drawn[row] && is_among(equals + 1, text);
            left += d->drawn[row];
        }
        if (left == 0) return nib_fail(error, NIB_ENOTFOUND, "table %s has no rows with %.200s", nib_table_name(t), r->where[i]);
    }
    return NIB_OK;
}

static bool repeats(const char *column) { return strcmp(column, "seed") == 0 || strcmp(column, "skip") == 0; }

/* Takes repeats out of the keys, where anything else is left to draw. */
static void part_repeats(struct drawing *d, const struct nib_plot_request *r) {
    size_t kept = 0, key[MOST_KEYS];
    for (size_t i = 0; i < d->keys; i++) {
        const char *name = nib_table_column(d->table, d->key[i])->name;
        bool asked = r->x != NULL && strcmp(r->x, name) == 0;
        if (repeats(name) && !asked)
            d->repeat[d->repeats++] = d->key[i];
        else
            key[kept++] = d->key[i];
    }
    bool numbers = false; /* besides repeats */
    for (size_t i = 0; i < kept; i++) numbers |= !is_text(d->table, key[i]);
    if (kept == 0 || (r->kind == NIB_PLOT_LINES && r->x == NULL && !numbers)) {
        d->repeats = 0;
        return;
    }
    memcpy(d->key, key, kept * sizeof *key);
    d->keys = kept;
}

/* Whether a column has more values than can stand side by side. */
static bool is_broad(const struct drawing *d, size_t column) {
    struct labels seen = {.text = NULL};
    char text[TEXT];
    for (size_t row = 0; seen.count <= MOST_PLACES && row < nib_table_rows(d->table); row++) {
        if (!d->drawn[row]) continue;
        cell(d->table, row, column, text, sizeof text);
        if (label(&seen, text) == SIZE_MAX) break;
    }
    free(seen.text);
    return seen.count > MOST_PLACES;
}

/* Texts along the abscissa: the last key, or another where that has too many values, which then stand one below the other. */
static size_t text_key(const struct drawing *d) {
    for (size_t i = d->keys; i-- > 0;)
        if (!is_broad(d, d->key[i])) return d->key[i];
    return d->key[d->keys - 1];
}

static enum nib_status choose(struct drawing *d, const struct nib_plot_request *r, struct nib_error *error) {
    const struct nib_table *t = d->table;
    for (size_t i = r->keys > 0 ? 1 : 0; i < nib_table_columns(t) && d->keys < MOST_KEYS; i++)
        if ((r->keys > 0 ? i <= r->keys : is_text(t, i)) && varies(d, i)) d->key[d->keys++] = i;
    part_repeats(d, r);
    d->measure = SIZE_MAX;
    if (r->measure != NULL) {
        d->measure = column_of(t, r->measure);
        if (d->measure == SIZE_MAX || is_text(t, d->measure))
            return no_column(t, "measure", r->keys + 1, r->measure, error);
    }
    for (size_t i = r->keys + 1; d->measure == SIZE_MAX && i < nib_table_columns(t); i++)
        if (nib_table_column(t, i)->type == NIB_COLUMN_REAL) d->measure = i;
    if (d->measure == SIZE_MAX) return nib_fail(error, NIB_EINVAL, "table %s has nothing to draw", nib_table_name(t));
    char name[200];
    snprintf(name, sizeof name, "%s_se", nib_table_column(t, d->measure)->name);
    d->error_of = column_of(t, name);
    d->x = SIZE_MAX;
    if (r->x != NULL) {
        d->x = column_of(t, r->x);
        if (d->x == SIZE_MAX) return no_column(t, "column", 0, r->x, error);
    }
    for (size_t i = 0; d->x == SIZE_MAX && i < d->keys && r->kind != NIB_PLOT_BARS; i++)
        if (!is_text(t, d->key[i])) d->x = d->key[i];
    if (d->x == SIZE_MAX && d->keys > 0) d->x = text_key(d);
    if (d->x == SIZE_MAX) return nib_fail(error, NIB_EINVAL, "table %s has no column to draw over", nib_table_name(t));
    return NIB_OK;
}

/* What a row says of `count` columns, without `without`, joined by commas. */
static void join(const struct drawing *d, size_t row, const size_t *columns, size_t count, size_t without, char all[TEXT]) {
    char text[TEXT];
    size_t length = 0;
    all[0] = '\0';
    for (size_t i = 0; i < count && length < TEXT; i++) {
        if (columns[i] == without) continue;
        cell(d->table, row, columns[i], text, sizeof text);
        const char *short_name = strrchr(text, ':'); /* FILE:tensor */
        length += (size_t)snprintf(all + length, TEXT - length, "%s%s", length == 0 ? "" : ", ",
                                   short_name == NULL ? text : short_name + 1);
    }
}

/* Places, series and runs of all rows. */
static enum nib_status place_rows(struct drawing *d, struct nib_error *error) {
    size_t rows = nib_table_rows(d->table);
    d->place = nib_alloc(rows, sizeof *d->place, "a figure", error);
    d->serie = nib_alloc(rows, sizeof *d->serie, "a figure", error);
    d->run = nib_alloc(rows, sizeof *d->run, "a figure", error);
    d->number = nib_alloc(rows, sizeof *d->number, "a figure", error);
    if (d->place == NULL || d->serie == NULL || d->run == NULL || d->number == NULL) return NIB_ENOMEM;
    for (size_t row = 0; row < rows; row++) {
        char text[TEXT];
        if (!d->drawn[row]) continue;
        cell(d->table, row, d->x, text, sizeof text);
        d->place[row] = label(&d->places, text);
        join(d, row, d->key, d->keys, d->x, text);
        d->serie[row] = label(&d->series, text);
        join(d, row, d->repeat, d->repeats, SIZE_MAX, text);
        d->run[row] = label(&d->runs, text);
        if (d->place[row] == SIZE_MAX || d->serie[row] == SIZE_MAX || d->run[row] == SIZE_MAX)
            return nib_fail(error, NIB_ENOMEM, "a figure: out of memory");
        if (!is_text(d->table, d->x)) d->number[d->place[row]] = number(d->table, row, d->x);
    }
    return NIB_OK;
}

/* From means by run to the mean over runs. A single one keeps its own standard error. */
static void average_runs(struct drawing *d, size_t cell) {
    size_t runs = d->runs.count, found = 0;
    double mean = 0, own = 0, spread = 0, times = 0;
    for (size_t i = cell * runs; i < (cell + 1) * runs; i++) {
        if (d->times[i] == 0) continue;
        found++;
        mean += d->value[i];
        own = d->square[i];
        times += d->times[i];
    }
    if (found > 0) mean /= (double)found;
    for (size_t i = cell * runs; i < (cell + 1) * runs; i++)
        if (d->times[i] > 0) spread += (d->value[i] - mean) * (d->value[i] - mean);
    d->value[cell] = mean;
    d->square[cell] = found > 1 ? sqrt(spread / ((double)found * (double)(found - 1))) : own;
    d->times[cell] = times;
}

/* Means of what falls together, and their errors. */
static enum nib_status arrange(struct drawing *d, struct nib_error *error) {
    enum nib_status status = place_rows(d, error);
    if (status != NIB_OK) return status;
    size_t cells = d->places.count * d->series.count, all = cells * d->runs.count;
    d->value = nib_alloc(all, sizeof *d->value, "a figure", error);
    d->square = nib_alloc(all, sizeof *d->square, "a figure", error);
    d->times = nib_alloc(all, sizeof *d->times, "a figure", error);
    if (d->value == NULL || d->square == NULL || d->times == NULL) return NIB_ENOMEM;
    for (size_t row = 0; row < nib_table_rows(d->table); row++) {
        if (!d->drawn[row]) continue;
        double value = number(d->table, row, d->measure);
        double deviation = d->error_of == SIZE_MAX ? 0 : number(d->table, row, d->error_of);
        size_t at = (d->serie[row] * d->places.count + d->place[row]) * d->runs.count + d->run[row];
        if (!isfinite(value)) continue;
        d->value[at] += value;
        if (isfinite(deviation)) d->square[at] += deviation * deviation;
        d->times[at] += 1;
    }
    for (size_t i = 0; i < all; i++) {
        if (d->times[i] == 0) continue;
        d->value[i] /= d->times[i];
        d->square[i] = sqrt(d->square[i]) / d->times[i];
    }
    for (size_t i = 0; i < cells; i++) average_runs(d, i);
    for (size_t i = 0; i < cells; i++)
        if (d->times[i] > 0) return NIB_OK;
    return nib_fail(error, NIB_EINCONSISTENT, "nothing to draw: %s of table %s is nowhere a finite number",
                    nib_table_column(d->table, d->measure)->name, nib_table_name(d->table));
}

static enum nib_plot_kind kind_of(const struct drawing *d, enum nib_plot_kind wanted) {
    if (wanted != NIB_PLOT_AUTO) return wanted;
    if (!is_text(d->table, d->x) && d->series.count <= FEW_SERIES) return NIB_PLOT_LINES;
    return d->series.count <= FEW_SERIES && d->places.count <= MOST_PLACES ? NIB_PLOT_BARS : NIB_PLOT_HEAT;
}

static void put_texts(struct nib_figure *figure, const char *name, const struct labels *labels) {
    const char **texts = calloc(labels->count, sizeof *texts);
    for (size_t i = 0; texts != NULL && i < labels->count; i++) texts[i] = labels->text[i];
    if (texts != NULL) nib_figure_texts(figure, name, texts, labels->count);
    free(texts);
}

static void put_series(const struct drawing *d, bool numeric, struct nib_figure *figure) {
    nib_figure_block(figure, "Data");
    for (size_t s = 0; s < d->series.count; s++) {
        for (size_t p = 0; p < d->places.count; p++) {
            size_t at = s * d->places.count + p;
            if (d->times[at] > 0)
                nib_figure_line(figure, "%.9g %.9g %.9g", numeric ? d->number[p] : (double)p, d->value[at], d->square[at]);
        }
        nib_figure_line(figure, "\n");
    }
    nib_figure_end(figure);
}

static void put_map(const struct drawing *d, struct nib_figure *figure) {
    double least = INFINITY, most = -INFINITY;
    nib_figure_block(figure, "Data");
    for (size_t at = 0; at < d->places.count * d->series.count; at++) {
        if (d->times[at] > 0) {
            least = fmin(least, d->value[at]);
            most = fmax(most, d->value[at]);
        }
        char value[40] = "NaN";
        if (d->times[at] > 0) snprintf(value, sizeof value, "%.9g", d->value[at]);
        nib_figure_line(figure, "%zu %zu %s", at % d->places.count, at / d->places.count, value);
    }
    nib_figure_end(figure);
    nib_figure_number(figure, "signed", least < 0 && most > 0);
    nib_figure_number(figure, "most", fmax(fabs(least), fabs(most)));
}

/* Powers of two, or at least steps by a factor. */
static bool by_factors(const struct drawing *d) {
    if (d->places.count < 4) return false;
    for (size_t p = 0; p < d->places.count; p++)
        if (!(d->number[p] > 0) || (p > 0 && d->number[p] < 1.5 * d->number[p - 1])) return false;
    return true;
}

static void draw(const struct drawing *d, const struct nib_plot_request *r, enum nib_plot_kind kind, struct nib_figure *figure) {
    const struct nib_column *measure = nib_table_column(d->table, d->measure), *x = nib_table_column(d->table, d->x);
    char text[400];
    bool averaged = false, errors = false;
    for (size_t i = 0; i < d->places.count * d->series.count; i++) {
        averaged |= d->times[i] > 1;
        errors |= d->square[i] > 0;
    }
    const char *units = measure->units == NULL || strcmp(measure->units, "1") == 0 ? "" : measure->units;
    snprintf(text, sizeof text, "%s%.100s%s%s%s", averaged ? "mean " : "", measure->name, units[0] == '\0' ? "" : " (", units,
             units[0] == '\0' ? "" : ")");
    if (d->repeats > 0) { /* what the mean is over */
        size_t used = strlen(text);
        bool seeds = d->repeats == 1 && strcmp(nib_table_column(d->table, d->repeat[0])->name, "seed") == 0;
        snprintf(text + used, sizeof text - used, ", %zu %s%s", d->runs.count, seeds ? "seeds" : "runs", errors ? ", +- standard error" : "");
    }
    nib_figure_text(figure, "title", r->title == NULL ? "" : r->title);
    nib_figure_text(figure, "xlabel", x->name);
    nib_figure_text(figure, "ylabel", text);
    nib_figure_number(figure, "series", (double)d->series.count);
    nib_figure_number(figure, "errors", errors);
    put_texts(figure, "Names", &d->series);
    double height = kind == NIB_PLOT_HEAT ? 4.5 + 0.28 * (double)d->series.count : 10;
    nib_figure_size(figure, 18, height < 9 ? 9 : height > 26 ? 26 : height);
    if (kind == NIB_PLOT_HEAT) {
        put_texts(figure, "Columns", &d->places);
        nib_figure_number(figure, "columns", (double)d->places.count);
        put_map(d, figure);
        return;
    }
    put_series(d, kind == NIB_PLOT_LINES, figure);
    if (kind == NIB_PLOT_LINES) {
        nib_figure_number(figure, "log_x", by_factors(d));
        return;
    }
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < d->places.count * d->series.count; i++) {
        if (d->times[i] == 0) continue;
        low = fmin(low, d->value[i]);
        high = fmax(high, d->value[i]);
    }
    bool far = (low > 0 && low > 0.5 * high) || (high < 0 && high < 0.5 * low); /* bars from zero would look all the same */
    nib_figure_number(figure, "points", far && r->kind == NIB_PLOT_AUTO);
    nib_figure_number(figure, "low", low);
    nib_figure_number(figure, "high", high);
    put_texts(figure, "Places", &d->places);
    nib_figure_number(figure, "places", (double)d->places.count);
}

enum nib_status nib_plot_table(const struct nib_table *table, const struct nib_plot_request *request, const char *path,
                               const char *script, struct nib_error *error) {
    static const char *const scripts[] = {[NIB_PLOT_LINES] = "lines", [NIB_PLOT_BARS] = "bars", [NIB_PLOT_HEAT] = "heat"};
    struct drawing d = {.table = table};
    struct nib_figure *figure = NULL;
    if (nib_table_rows(table) == 0) return nib_fail(error, NIB_EINVAL, "table %s is empty", nib_table_name(table));
    enum nib_status status = select_rows(&d, request, error);
    if (status == NIB_OK) status = choose(&d, request, error);
    if (status == NIB_OK) status = arrange(&d, error);
    enum nib_plot_kind kind = status == NIB_OK ? kind_of(&d, request->kind) : NIB_PLOT_LINES;
    if (status == NIB_OK && kind == NIB_PLOT_LINES && is_text(table, d.x))
        status = nib_fail(error, NIB_EINVAL, "lines need a numeric column, and %s holds text", nib_table_column(table, d.x)->name);
    if (status == NIB_OK) status = nib_figure_new(scripts[kind], &figure, error);
    if (status == NIB_OK) {
        draw(&d, request, kind, figure);
        status = nib_figure_draw(figure, path, script, error);
    }
    free(d.times);
    free(d.square);
    free(d.value);
    free(d.number);
    free(d.serie);
    free(d.drawn);
    free(d.place);
    free(d.run);
    free(d.runs.text);
    free(d.series.text);
    free(d.places.text);
    return status;
}
