/* An exploration as tables. */
#include "job/explore.h"

#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DATA, BLOCK, SCALE, ROTATION, METHOD, RANK, GRID, NAME, PARETO, OBJECTIVE, MEASURED, MEASURED_SE, OFF, FIRST };
#define STATISTIC_COLUMN(field, heading, units, digits, long_name)                                                     \
    {#field, heading, units, long_name, NIB_COLUMN_REAL, digits},

static const struct nib_column columns[] = {
    {"data", "data", "", "density or tensor", NIB_COLUMN_TEXT, 0},
    {"block", "block", "1", "elements of a block", NIB_COLUMN_INTEGER, 0},
    {"scale", "scale", "", "scale format", NIB_COLUMN_TEXT, 0},
    {"rotation", "rotation", "", "rotation before the quantizer", NIB_COLUMN_TEXT, 0},
    {"method", "method", "", "quadrature for independent elements, sampled for what is rotated or real",
     NIB_COLUMN_TEXT, 0},
    {"rank", "rank", "1", "place among the grids by the objective", NIB_COLUMN_INTEGER, 0},
    {"grid", "grid", "", "grid", NIB_COLUMN_TEXT, 0},
    {"name", "name", "", "name of a known grid", NIB_COLUMN_TEXT, 0},
    {"pareto", "Pareto", "1", "1 where no other grid has both a lower NMSE and a lower |1 - alpha|", NIB_COLUMN_INTEGER,
     0},
    {"objective", "objective", "1", "objective, the smaller the better", NIB_COLUMN_REAL, -5},
    {"measured_sqnr_db", "measured dB", "dB", "SQNR of sampled blocks", NIB_COLUMN_REAL, 3},
    {"measured_sqnr_db_se", "+-", "dB", "standard error: SQNR of sampled blocks", NIB_COLUMN_REAL, 3},
    {"measured_off_db", "off dB", "dB", "measured minus expected SQNR", NIB_COLUMN_REAL, 3},
    NIB_STATISTIC_LIST(STATISTIC_COLUMN)};

enum nib_status nib_explore_table(const struct nib_explore_result *result, size_t most_per_group,
                                  struct nib_table **out, struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("grids", columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < result->count; i++) {
        const struct nib_explore_point *p = &result->point[i];
        if (p->rank > most_per_group && p->grid->name[0] == '\0') continue; /* known grids are always told */
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
        }
        nib_table_set_text(table, row, DATA, p->data);
        nib_table_set_integer(table, row, BLOCK, p->block);
        nib_table_set_text(table, row, SCALE, p->scale);
        nib_table_set_text(table, row, ROTATION, p->rotation);
        nib_table_set_text(table, row, METHOD, p->method);
        nib_table_set_integer(table, row, RANK, (int64_t)p->rank);
        nib_table_set_text(table, row, GRID, p->grid->label);
        nib_table_set_text(table, row, NAME, p->grid->name);
        nib_table_set_integer(table, row, PARETO, p->pareto);
        nib_table_set_real(table, row, OBJECTIVE, p->objective);
        nib_table_set_real(table, row, MEASURED, p->measured.value);
        nib_table_set_real(table, row, MEASURED_SE, p->measured.error);
        if (strcmp(p->method, "quadrature") == 0)
            nib_table_set_real(table, row, OFF, p->measured.value - p->bias.sqnr_db);
        for (int s = 0; s < NIB_STATISTICS; s++)
            nib_table_set_real(table, row, FIRST + (size_t)s, nib_bias_get(&p->bias, (enum nib_statistic)s));
    }
    *out = table;
    return NIB_OK;
}

static const struct nib_column crossing_columns[] = {
    {"first", "first", "", "grid", NIB_COLUMN_TEXT, 0},
    {"second", "second", "", "grid", NIB_COLUMN_TEXT, 0},
    {"block", "block", "1", "elements of a block", NIB_COLUMN_INTEGER, 0},
    {"exponent", "exponent", "1", "exponent of the generalised Gaussian by which both have the same SQNR",
     NIB_COLUMN_REAL, 4},
    {"crest", "crest", "1", "mean crest factor of its blocks", NIB_COLUMN_REAL, 4},
    {"note", "note", "", "why there is none", NIB_COLUMN_TEXT, 0},
};

enum nib_status nib_explore_crossings(const struct nib_explore_grids *grids, const int64_t *blocks, size_t block_count,
                                      struct nib_table **out, struct nib_error *error) {
    struct nib_table *table = NULL;
    if (grids->count < 2) return nib_fail(error, NIB_EINVAL, "a crossover needs two grids");
    enum nib_status status = nib_table_new("crossovers", crossing_columns,
                                           sizeof crossing_columns / sizeof *crossing_columns, &table, error);
    for (size_t i = 1; status == NIB_OK && i < grids->count; i++)
        for (size_t b = 0; status == NIB_OK && b < block_count; b++) {
            double exponent = NAN, crest = NAN;
            struct nib_error why = {NIB_OK, 0, "", ""};
            enum nib_status own = nib_expect_crossing(grids->grid[0].element, grids->grid[i].element,
                                                      (unsigned)blocks[b], &exponent, &crest, &why);
            size_t row = nib_table_row(table);
            if (row == SIZE_MAX) status = nib_fail(error, NIB_ENOMEM, "result table: out of memory");
            if (status != NIB_OK) break;
            nib_table_set_text(table, row, 0, grids->grid[0].label);
            nib_table_set_text(table, row, 1, grids->grid[i].label);
            nib_table_set_integer(table, row, 2, blocks[b]);
            nib_table_set_real(table, row, 3, exponent);
            nib_table_set_real(table, row, 4, crest);
            if (own == NIB_ECONVERGE) nib_table_set_text(table, row, 5, why.text);
            if (own != NIB_OK && own != NIB_ECONVERGE) {
                status = own;
                if (error != NULL) *error = why;
            }
        }
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}
