#include "io/hdf5_grid.h"

#include "base/error.h"
#include "base/memory.h"
#include <hdf5_hl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 8, MOST_ARRAYS = 256, MOST_CELLS = 4000000, NAME = 128 };

/* A dataset over scales, or a scale, which is over itself. */
struct array {
    char name[NAME], scale[MOST_AXES][NAME];
    hsize_t extent[MOST_AXES];
    int rank;
    enum nib_column_type type;
    bool is_scale;
};

struct grid {
    struct array array[MOST_ARRAYS];
    size_t count;
    const struct array *widest; /* its scales are the axes */
};

static herr_t name_of_scale(hid_t dataset, unsigned axis, hid_t scale, void *context) {
    char path[512];
    (void)dataset, (void)axis;
    if (H5Iget_name(scale, path, sizeof path) <= 0) return 0;
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    if (strlen(name) < NAME) strcpy(context, name);
    return 1;
}

/* Shape, type and scales of a dataset; false for what a table cannot hold. */
static bool describe(hid_t dataset, const char *name, struct array *out) {
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    bool good = class == H5T_INTEGER || class == H5T_FLOAT || (class == H5T_STRING && H5Tis_variable_str(type) > 0);
    out->type = class == H5T_INTEGER ? NIB_COLUMN_INTEGER : class == H5T_FLOAT ? NIB_COLUMN_REAL : NIB_COLUMN_TEXT;
    out->rank = space < 0 ? 0 : H5Sget_simple_extent_ndims(space);
    good = good && out->rank > 0 && out->rank <= MOST_AXES && strlen(name) < NAME &&
           H5Sget_simple_extent_dims(space, out->extent, NULL) == out->rank;
    if (good) strcpy(out->name, name);
    out->is_scale = good && H5DSis_scale(dataset) > 0;
    good = good && !(out->is_scale && out->rank != 1);
    for (int axis = 0; good && axis < out->rank; axis++) {
        out->scale[axis][0] = '\0';
        if (out->is_scale)
            strcpy(out->scale[axis], name);
        else
            H5DSiterate_scales(dataset, (unsigned)axis, NULL, name_of_scale, out->scale[axis]);
        good = out->scale[axis][0] != '\0';
    }
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    return good;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *about, void *context) {
    struct grid *grid = context;
    (void)about;
    if (grid->count == MOST_ARRAYS) return 0;
    hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT);
    if (dataset >= 0 && describe(dataset, name, &grid->array[grid->count])) grid->count++;
    if (dataset >= 0) H5Dclose(dataset);
    return 0;
}

static const struct array *find(const struct grid *grid, const char *name) {
    for (size_t i = 0; i < grid->count; i++)
        if (strcmp(grid->array[i].name, name) == 0) return &grid->array[i];
    return NULL;
}

/* The arrays of a group and which of them is over the most scales; false when no numbers are over scales there. */
static bool survey(hid_t group, struct grid *grid) {
    grid->count = 0;
    grid->widest = NULL;
    if (H5Literate(group, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, visit, grid) < 0) return false;
    for (size_t i = 0; i < grid->count; i++) {
        const struct array *a = &grid->array[i];
        bool known = !a->is_scale && a->type != NIB_COLUMN_TEXT;
        for (int axis = 0; known && axis < a->rank; axis++) {
            const struct array *scale = find(grid, a->scale[axis]);
            known = scale != NULL && scale->is_scale && scale->extent[0] == a->extent[axis];
        }
        if (known && (grid->widest == NULL || a->rank > grid->widest->rank)) grid->widest = a;
    }
    return grid->widest != NULL;
}

bool nib_hdf5_is_grid(hid_t file, const char *name) {
    struct grid *grid = malloc(sizeof *grid);
    hid_t group = grid == NULL || H5Lexists(file, name, H5P_DEFAULT) <= 0 ? -1 : H5Gopen2(file, name, H5P_DEFAULT);
    bool found = group >= 0 && survey(group, grid);
    if (group >= 0) H5Gclose(group);
    free(grid);
    return found;
}

/* By how much an index into `a` grows along each axis of the grid; false where `a` is over anything else. */
static bool steps_of(const struct array *a, const struct array *axes, hsize_t step[MOST_AXES]) {
    hsize_t stride = 1;
    int matched = 0;
    memset(step, 0, MOST_AXES * sizeof *step);
    for (int own = a->rank - 1; own >= 0; own--) {
        for (int axis = 0; axis < axes->rank; axis++)
            if (strcmp(a->scale[own], axes->scale[axis]) == 0 && a->extent[own] == axes->extent[axis] && step[axis] == 0) {
                step[axis] = stride;
                matched++;
                break;
            }
        stride *= a->extent[own];
    }
    return matched == a->rank;
}

/* More than MOST_CELLS where there are too many. */
static hsize_t cells(const struct array *a) {
    hsize_t count = 1;
    for (int axis = 0; axis < a->rank && count <= MOST_CELLS; axis++)
        count *= a->extent[axis] > MOST_CELLS ? MOST_CELLS + 1 : a->extent[axis];
    return count;
}

/* One array into a column, repeated along the axes that it does not have. */
static enum nib_status fill(hid_t group, const char *path, const struct array *a, const struct array *axes,
                            struct nib_table *table, size_t column, struct nib_error *error) {
    hsize_t step[MOST_AXES], count = cells(a);
    if (!steps_of(a, axes, step)) return nib_fail_at(error, NIB_EINVAL, path, 0, "%.60s is over other scales", a->name);
    hid_t dataset = H5Dopen2(group, a->name, H5P_DEFAULT), text = nib_hdf5_text_type();
    hid_t type = a->type == NIB_COLUMN_INTEGER ? H5T_NATIVE_INT64 : a->type == NIB_COLUMN_REAL ? H5T_NATIVE_DOUBLE : text;
    union {
        int64_t integer;
        double real;
        char *text;
    } *data = nib_alloc((size_t)count, sizeof *data, a->name, error);
    if (data != NULL) memset(data, 0, (size_t)count * sizeof *data);
    bool read = dataset >= 0 && data != NULL && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0;
    for (size_t row = 0; read && row < nib_table_rows(table); row++) {
        hsize_t at = 0, rest = row;
        for (int axis = axes->rank - 1; axis >= 0; rest /= axes->extent[axis], axis--) at += rest % axes->extent[axis] * step[axis];
        switch (a->type) {
        case NIB_COLUMN_INTEGER: nib_table_set_integer(table, row, column, data[at].integer); break;
        case NIB_COLUMN_REAL: nib_table_set_real(table, row, column, data[at].real); break;
        case NIB_COLUMN_TEXT: nib_table_set_text(table, row, column, data[at].text == NULL ? "" : data[at].text); break;
        }
    }
    for (hsize_t i = 0; read && a->type == NIB_COLUMN_TEXT && i < count; i++) H5free_memory(data[i].text);
    enum nib_status status = read ? NIB_OK : data == NULL ? NIB_ENOMEM : nib_hdf5_fail(error, path, a->name);
    free(data);
    if (text >= 0) H5Tclose(text);
    if (dataset >= 0) H5Dclose(dataset);
    return status;
}

static bool add_column(hid_t group, const struct array *a, struct nib_stored_table *out, struct nib_column *column) {
    hid_t dataset = H5Dopen2(group, a->name, H5P_DEFAULT);
    if (dataset < 0) return false;
    const char *name = nib_stored_table_keep(out, strdup(a->name));
    const char *units = nib_stored_table_keep(out, nib_hdf5_text_attribute_read(dataset, "units"));
    const char *long_name = nib_stored_table_keep(out, nib_hdf5_text_attribute_read(dataset, "long_name"));
    H5Dclose(dataset);
    *column = (struct nib_column){name, name, units, long_name, a->type, -6};
    return name != NULL && units != NULL && long_name != NULL;
}

static enum nib_status read_grid(hid_t group, const char *path, const char *name, const struct grid *grid,
                                 struct nib_stored_table *out, struct nib_error *error) {
    const struct array *axes = grid->widest, *shown[MOST_ARRAYS + 1] = {NULL};
    struct nib_column columns[MOST_ARRAYS + 1] = {{"row", "row", "1", "row", NIB_COLUMN_INTEGER, 0}};
    hsize_t step[MOST_AXES], rows = cells(axes);
    size_t count = 1;
    if (rows == 0) return nib_fail_at(error, NIB_EINVAL, path, 0, "table \"%.60s\" is empty", name);
    if (rows > MOST_CELLS)
        return nib_fail_at(error, NIB_EINVAL, path, 0, "\"%.60s\" has more than %d cells", name, (int)MOST_CELLS);
    for (int axis = 0; axis < axes->rank; axis++) shown[count++] = find(grid, axes->scale[axis]);
    for (size_t i = 0; i < grid->count && count <= MOST_ARRAYS; i++)
        if (!grid->array[i].is_scale && steps_of(&grid->array[i], axes, step)) shown[count++] = &grid->array[i];
    for (size_t i = 1; i < count; i++)
        if (!add_column(group, shown[i], out, &columns[i])) return nib_hdf5_fail(error, path, shown[i]->name);
    out->axes = axes->rank;
    enum nib_status status = nib_table_new(name, columns, count, &out->table, error);
    for (hsize_t i = 0; status == NIB_OK && i < rows; i++) {
        if (nib_table_row(out->table) == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "table: out of memory");
        nib_table_set_integer(out->table, (size_t)i, 0, (int64_t)i);
    }
    for (size_t i = 1; status == NIB_OK && i < count; i++) status = fill(group, path, shown[i], axes, out->table, i, error);
    return status;
}

enum nib_status nib_hdf5_grid_read(hid_t file, const char *path, const char *name, struct nib_stored_table *out,
                                   struct nib_error *error) {
    struct grid *grid = nib_alloc(1, sizeof *grid, path, error);
    if (grid == NULL) return NIB_ENOMEM;
    hid_t group = H5Gopen2(file, name, H5P_DEFAULT);
    enum nib_status status = group >= 0 && survey(group, grid) ? read_grid(group, path, name, grid, out, error)
                                                               : nib_hdf5_fail(error, path, name);
    if (group >= 0) H5Gclose(group);
    free(grid);
    return status;
}
