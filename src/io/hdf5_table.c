#include "io/hdf5_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/hdf5_grid.h"
#include "io/hdf5_handle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 512, MOST_ROWS = 100000000 };

struct reading {
    const char *path;
    struct nib_stored_table *out;
    struct nib_error *error;
    hid_t group;
    hsize_t rows;
    struct nib_column columns[MOST_COLUMNS];
    size_t count;
};

void nib_stored_table_free(struct nib_stored_table *stored) {
    nib_table_free(stored->table);
    for (size_t i = 0; i < stored->string_count; i++) free(stored->strings[i]);
    free(stored->strings);
    *stored = (struct nib_stored_table){.table = NULL};
}

const char *nib_stored_table_keep(struct nib_stored_table *stored, char *text) {
    char **strings = text == NULL ? NULL : realloc(stored->strings, (stored->string_count + 1) * sizeof *strings);
    if (strings == NULL) {
        free(text);
        return NULL;
    }
    stored->strings = strings;
    return strings[stored->string_count++] = text;
}

/* Length of a one-dimensional dataset; 0 for anything else. */
static hsize_t length_of(hid_t dataset) {
    hsize_t length = 0;
    hid_t space = H5Dget_space(dataset);
    if (space >= 0 && H5Sget_simple_extent_ndims(space) == 1 && H5Sget_simple_extent_dims(space, &length, NULL) < 0) length = 0;
    if (space >= 0) H5Sclose(space);
    return length;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *about, void *context) {
    struct reading *r = context;
    (void)about;
    if (strcmp(name, "row") == 0 || r->count == MOST_COLUMNS) return 0;
    hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT), type = dataset < 0 ? -1 : H5Dget_type(dataset);
    if (type >= 0 && length_of(dataset) == r->rows) {
        H5T_class_t class = H5Tget_class(type);
        enum nib_column_type kind = class == H5T_INTEGER ? NIB_COLUMN_INTEGER
                                    : class == H5T_FLOAT ? NIB_COLUMN_REAL
                                                         : NIB_COLUMN_TEXT;
        const char *own = nib_stored_table_keep(r->out, strdup(name));
        const char *units = nib_stored_table_keep(r->out, nib_hdf5_text_attribute_read(dataset, "units"));
        const char *long_name = nib_stored_table_keep(r->out, nib_hdf5_text_attribute_read(dataset, "long_name"));
        bool known = class != H5T_STRING || H5Tis_variable_str(type) > 0;
        if (own != NULL && units != NULL && long_name != NULL && known)
            r->columns[r->count++] = (struct nib_column){own, own, units, long_name, kind, -6};
    }
    if (type >= 0) H5Tclose(type);
    if (dataset >= 0) H5Dclose(dataset);
    return 0;
}

static enum nib_status read_column(struct reading *r, size_t column) {
    const struct nib_column *c = &r->columns[column];
    hid_t dataset = H5Dopen2(r->group, c->name, H5P_DEFAULT), text = nib_hdf5_text_type();
    hid_t type = c->type == NIB_COLUMN_INTEGER ? H5T_NATIVE_INT64 : c->type == NIB_COLUMN_REAL ? H5T_NATIVE_DOUBLE : text;
    void *data = nib_alloc((size_t)r->rows, 8, "a column", r->error);
    bool good = dataset >= 0 && data != NULL && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0;
    for (size_t i = 0; good && i < r->rows; i++) switch (c->type) {
        case NIB_COLUMN_INTEGER: nib_table_set_integer(r->out->table, i, column, ((int64_t *)data)[i]); break;
        case NIB_COLUMN_REAL: nib_table_set_real(r->out->table, i, column, ((double *)data)[i]); break;
        case NIB_COLUMN_TEXT:
            nib_table_set_text(r->out->table, i, column, ((char **)data)[i] == NULL ? "" : ((char **)data)[i]);
            H5free_memory(((char **)data)[i]);
            break;
        }
    enum nib_status status = good ? NIB_OK : nib_hdf5_fail(r->error, r->path, c->name);
    free(data);
    if (text >= 0) H5Tclose(text);
    if (dataset >= 0) H5Dclose(dataset);
    return status;
}

static bool is_table(hid_t file, const char *group) {
    char path[300];
    snprintf(path, sizeof path, "%s/row", group);
    return H5Lexists(file, group, H5P_DEFAULT) > 0 && H5Lexists(file, path, H5P_DEFAULT) > 0;
}

static herr_t first_table(hid_t file, const char *name, const H5L_info_t *about, void *context) {
    (void)about;
    if (!is_table(file, name) && !nib_hdf5_is_grid(file, name)) return 0;
    snprintf(context, 256, "%s", name);
    return 1;
}

struct tables {
    char names[300];
    size_t used;
};

static herr_t list_table(hid_t file, const char *name, const H5L_info_t *about, void *context) {
    struct tables *known = context;
    size_t room = sizeof known->names - known->used;
    (void)about;
    if ((!is_table(file, name) && !nib_hdf5_is_grid(file, name)) || strlen(name) + 3 > room) return 0;
    known->used += (size_t)snprintf(known->names + known->used, room, "%s%s", known->used > 0 ? ", " : "", name);
    return 0;
}

static enum nib_status no_table(struct reading *r, hid_t file, const char *wanted) {
    struct tables known = {.names = ""};
    H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, NULL, list_table, &known);
    if (wanted == NULL) return nib_fail_at(r->error, NIB_ENOTFOUND, r->path, 0, "has no table");
    return nib_fail_at(r->error, NIB_ENOTFOUND, r->path, 0, "has no table \"%.60s\"; there is %s", wanted,
                       known.used > 0 ? known.names : "none");
}

static enum nib_status read_group(struct reading *r, hid_t file, const char *wanted) {
    char name[256] = "";
    if (wanted != NULL)
        snprintf(name, sizeof name, "%.255s", wanted);
    else if (is_table(file, "points"))
        strcpy(name, "points");
    else if (is_table(file, "summary"))
        strcpy(name, "summary");
    else
        H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, NULL, first_table, name);
    if (name[0] != '\0' && !is_table(file, name) && nib_hdf5_is_grid(file, name))
        return nib_hdf5_grid_read(file, r->path, name, r->out, r->error);
    if (name[0] == '\0' || !is_table(file, name)) return no_table(r, file, wanted);
    r->group = H5Gopen2(file, name, H5P_DEFAULT);
    hid_t row = r->group < 0 ? -1 : H5Dopen2(r->group, "row", H5P_DEFAULT);
    r->rows = row < 0 ? 0 : length_of(row);
    if (row >= 0) H5Dclose(row);
    hid_t axes = r->group >= 0 && H5Aexists(r->group, "axes") > 0 ? H5Aopen(r->group, "axes", H5P_DEFAULT) : -1;
    if (axes >= 0) {
        if (H5Aread(axes, H5T_NATIVE_INT64, &r->out->axes) < 0) r->out->axes = 0;
        H5Aclose(axes);
    }
    if (r->rows == 0 || r->rows > MOST_ROWS) return nib_fail_at(r->error, NIB_EINVAL, r->path, 0, "table \"%s\" is empty", name);
    if (H5Literate(r->group, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, visit, r) < 0)
        return nib_hdf5_fail(r->error, r->path, name);
    enum nib_status status = nib_table_new(name, r->columns, r->count, &r->out->table, r->error);
    for (hsize_t i = 0; status == NIB_OK && i < r->rows; i++)
        if (nib_table_row(r->out->table) == SIZE_MAX) status = nib_fail(r->error, NIB_ENOMEM, "table: out of memory");
    for (size_t i = 0; status == NIB_OK && i < r->count; i++) status = read_column(r, i);
    return status;
}

enum nib_status nib_stored_table_read(const char *path, const char *group, struct nib_stored_table *out,
                                      struct nib_error *error) {
    struct nib_stored_table stored = {.table = NULL};
    struct reading *r = nib_alloc(1, sizeof *r, path, error);
    if (r == NULL) return NIB_ENOMEM;
    *r = (struct reading){.path = path, .out = &stored, .error = error, .group = -1};
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    hid_t file = -1;
    enum nib_status status = nib_hdf5_open(path, &file, error);
    if (status == NIB_OK) status = read_group(r, file, group);
    if (status == NIB_OK) {
        char *title = nib_hdf5_text_attribute_read(file, "title");
        snprintf(stored.title, sizeof stored.title, "%s", title == NULL ? "" : title);
        free(title);
    }
    if (r->group >= 0) H5Gclose(r->group);
    if (file >= 0) H5Fclose(file);
    nib_hdf5_quiet_leave(quiet);
    free(r);
    if (status == NIB_OK)
        *out = stored;
    else
        nib_stored_table_free(&stored);
    return status;
}
