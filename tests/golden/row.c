#include "golden/row.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *path, size_t line, const char *expected) {
    fprintf(stderr, "%s:%zu: expected %s\n", path, line, expected);
    exit(2);
}

static size_t split(char *text, const char **out, size_t most) {
    size_t count = 0;
    char *saved = NULL;
    for (char *word = strtok_r(text, " ", &saved); word != NULL && count < most; word = strtok_r(NULL, " ", &saved))
        out[count++] = word;
    return count;
}

static bool parse_files(const char *text, enum row_files *out) {
    static const char *const names[] = {"gpu", "cpu", "cpu+", "any"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum row_files)i;
            return true;
        }
    return false;
}

/* variant, directory, files, quantizer, settings, options; "-" for none of the last two. */
static void parse(struct row *row, const char *path, size_t line) {
    char *field[6] = {NULL}, *rest = row->line;
    for (int i = 0; i < 6; i++) field[i] = strsep(&rest, "\t");
    for (int i = 0; i < 6; i++)
        if (field[i] == NULL || field[i][0] == '\0') die(path, line, "six fields with tabs between them");
    row->variant = field[0];
    row->directory = field[1];
    if (!parse_files(field[2], &row->files)) die(path, line, "gpu, cpu, cpu+ or any in the third field");
    row->quantizer = field[3];
    if (strcmp(field[4], "-") != 0) row->setting_count = split(field[4], row->settings, ROW_SETTINGS);
    if (strcmp(field[5], "-") != 0) row->option_count = split(field[5], row->options, ROW_OPTIONS);
}

struct row *rows_read(const char *path, size_t *count) {
    FILE *stream = fopen(path, "r");
    struct row *rows = NULL;
    char *line = NULL;
    size_t size = 0, number = 0;
    if (stream == NULL) die(path, 0, "a file that can be read");
    *count = 0;
    while (getline(&line, &size, stream) >= 0) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#') continue;
        rows = realloc(rows, (*count + 1) * sizeof *rows);
        if (rows == NULL) die(path, number, "more memory");
        struct row *row = &rows[(*count)++];
        *row = (struct row){.line = strdup(line)};
        if (row->line == NULL) die(path, number, "more memory");
        parse(row, path, number);
    }
    free(line);
    fclose(stream);
    return rows;
}

void rows_free(struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) free(rows[i].line);
    free(rows);
}

const char *row_option(const struct row *row, const char *key) {
    size_t length = strlen(key);
    for (size_t i = 0; i < row->option_count; i++)
        if (strncmp(row->options[i], key, length) == 0 && row->options[i][length] == '=') return row->options[i] + length + 1;
    return NULL;
}

bool row_has_file(const struct row *row, const char *name, bool has_cpu_twin) {
    const char *cases = row_option(row, "case");
    if (cases != NULL && fnmatch(cases, name, 0) != 0) return false;
    bool cpu = strstr(name, ".cpu.") != NULL;
    switch (row->files) {
    case ROW_GPU: return !cpu;
    case ROW_CPU: return cpu;
    case ROW_CPU_ALL: return cpu || !has_cpu_twin;
    case ROW_ANY: break;
    }
    return true;
}
