/* Result files: datasets over dimension scales. */
#include "io/hdf5_out.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/hdf5_handle.h"
#include "io/hdf5_result.h"
#include "io/text.h"
#include <hdf5_hl.h>
#include <stdlib.h>
#include <string.h>

static hid_t memory_type(enum nib_result_type type) {
    switch (type) {
    case NIB_RESULT_F64: return H5T_NATIVE_DOUBLE;
    case NIB_RESULT_F32: return H5T_NATIVE_FLOAT;
    case NIB_RESULT_I64: return H5T_NATIVE_INT64;
    case NIB_RESULT_U8: return H5T_NATIVE_UINT8;
    case NIB_RESULT_U16: return H5T_NATIVE_UINT16;
    case NIB_RESULT_U32: return H5T_NATIVE_UINT32;
    case NIB_RESULT_TEXT: break;
    }
    return -1;
}

static hid_t create_dataset(hid_t group, const char *name, hid_t type, unsigned rank, const hsize_t *extents) {
    unsigned order = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
    hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple((int)rank, extents, NULL);
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE), dataset = -1;
    if (space >= 0 && properties >= 0 && H5Pset_attr_creation_order(properties, order) >= 0 &&
        H5Pset_obj_track_times(properties, false) >= 0)
        dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    if (properties >= 0) H5Pclose(properties);
    if (space >= 0) H5Sclose(space);
    return dataset;
}

/* Texts as valid UTF-8; `owned` collects the copies that had to be made. */
static const char **clean_texts(const char *const *values, size_t count, char ***owned, struct nib_error *error) {
    const char **texts = nib_alloc(count, sizeof *texts, "texts of a result", error);
    char **copies = nib_alloc(count, sizeof *copies, "texts of a result", error);
    bool complete = texts != NULL && copies != NULL;
    for (size_t i = 0; i < count && complete; i++)
        complete = (texts[i] = nib_utf8(values[i] == NULL ? "" : values[i], &copies[i])) != NULL;
    if (!complete) {
        for (size_t i = 0; copies != NULL && i < count; i++) free(copies[i]);
        free(copies);
        free(texts);
        nib_fail(error, NIB_ENOMEM, "texts of a result: out of memory");
        return NULL;
    }
    *owned = copies;
    return texts;
}

/* Creates and writes; *out stays open on success. */
static bool write_dataset(hid_t group, const char *name, enum nib_result_type type, unsigned rank,
                          const hsize_t *extents, const void *data, hid_t *out) {
    size_t count = 1;
    for (unsigned i = 0; i < rank; i++) count *= (size_t)extents[i];
    const char **texts = NULL;
    char **owned = NULL;
    hid_t stored = type == NIB_RESULT_TEXT ? nib_hdf5_text_type() : memory_type(type);
    if (type == NIB_RESULT_TEXT) {
        texts = clean_texts(data, count, &owned, NULL);
        if (texts == NULL) {
            H5Tclose(stored);
            return false;
        }
        data = texts;
    }
    hid_t dataset = stored < 0 ? -1 : create_dataset(group, name, stored, rank, extents);
    bool done = dataset >= 0 && (count == 0 || H5Dwrite(dataset, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    if (type == NIB_RESULT_TEXT) {
        for (size_t i = 0; i < count; i++) free(owned[i]);
        free(owned);
        free(texts);
        H5Tclose(stored);
    }
    if (!done && dataset >= 0) H5Dclose(dataset);
    if (done) *out = dataset;
    return done;
}

static bool describe(hid_t dataset, const char *units, const char *long_name) {
    if (long_name != NULL && long_name[0] != '\0' && !nib_hdf5_text_attribute(dataset, "long_name", long_name))
        return false;
    return units == NULL || units[0] == '\0' || nib_hdf5_text_attribute(dataset, "units", units);
}

static enum nib_status write_scale(struct nib_result *result, const char *group, const char *name, const char *units,
                                   const char *long_name, enum nib_result_type type, const void *values, size_t count,
                                   struct nib_error *error) {
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    enum nib_status status = NIB_OK;
    hsize_t extent = count;
    hid_t folder = nib_hdf5_group(result->file, group), dataset = -1;
    if (folder < 0 || !write_dataset(folder, name, type, 1, &extent, values, &dataset) ||
        !describe(dataset, units, long_name) || H5DSset_scale(dataset, name) < 0)
        status = nib_hdf5_fail(error, result->path, name);
    if (dataset >= 0) H5Dclose(dataset);
    if (folder >= 0) H5Gclose(folder);
    nib_hdf5_quiet_leave(quiet);
    return status;
}

enum nib_status nib_result_text_scale(struct nib_result *result, const char *group, const char *name,
                                      const char *long_name, const char *const *values, size_t count,
                                      struct nib_error *error) {
    return write_scale(result, group, name, NULL, long_name, NIB_RESULT_TEXT, values, count, error);
}

enum nib_status nib_result_integer_scale(struct nib_result *result, const char *group, const char *name,
                                         const char *units, const char *long_name, const int64_t *values, size_t count,
                                         struct nib_error *error) {
    return write_scale(result, group, name, units, long_name, NIB_RESULT_I64, values, count, error);
}

enum nib_status nib_result_real_scale(struct nib_result *result, const char *group, const char *name, const char *units,
                                      const char *long_name, const double *values, size_t count,
                                      struct nib_error *error) {
    return write_scale(result, group, name, units, long_name, NIB_RESULT_F64, values, count, error);
}

enum nib_status nib_result_index_scale(struct nib_result *result, const char *group, const char *name,
                                       const char *long_name, size_t count, struct nib_error *error) {
    int64_t *values = nib_alloc_raw(count, sizeof *values, "index of a result", error);
    if (values == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++) values[i] = (int64_t)i;
    enum nib_status status = nib_result_integer_scale(result, group, name, "1", long_name, values, count, error);
    free(values);
    return status;
}

static bool extent_of(hid_t group, const char *scale, hsize_t *out) {
    hid_t dataset = H5Dopen2(group, scale, H5P_DEFAULT), space = dataset < 0 ? -1 : H5Dget_space(dataset);
    bool done = space >= 0 && H5DSis_scale(dataset) > 0 && H5Sget_simple_extent_dims(space, out, NULL) == 1;
    if (space >= 0) H5Sclose(space);
    if (dataset >= 0) H5Dclose(dataset);
    return done;
}

static bool attach(hid_t group, hid_t dataset, const char *scale, unsigned axis) {
    hid_t coordinate = H5Dopen2(group, scale, H5P_DEFAULT);
    bool done = coordinate >= 0 && H5DSattach_scale(dataset, coordinate, axis) >= 0;
    if (coordinate >= 0) H5Dclose(coordinate);
    return done;
}

static enum nib_status write_array(struct nib_result *result, hid_t group, const struct nib_result_array *array,
                                   struct nib_error *error) {
    hsize_t extents[8];
    hid_t dataset;
    if (array->rank > 8) return nib_fail(error, NIB_EINVAL, "result \"%s\" has more than 8 dimensions", array->name);
    for (unsigned i = 0; i < array->rank; i++)
        if (!extent_of(group, array->scales[i], &extents[i]))
            return nib_fail_at(error, NIB_EINVAL, result->path, 0, "result \"%s\": no dimension scale \"%s\" in group \"%s\"",
                               array->name, array->scales[i], array->group);
    if (!write_dataset(group, array->name, array->type, array->rank, extents, array->data, &dataset))
        return nib_hdf5_fail(error, result->path, array->name);
    bool done = describe(dataset, array->units, array->long_name);
    for (unsigned i = 0; i < array->rank && done; i++) done = attach(group, dataset, array->scales[i], i);
    H5Dclose(dataset);
    return done ? NIB_OK : nib_hdf5_fail(error, result->path, array->name);
}

enum nib_status nib_result_array(struct nib_result *result, const struct nib_result_array *array,
                                 struct nib_error *error) {
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    hid_t group = nib_hdf5_group(result->file, array->group);
    enum nib_status status = group < 0 ? nib_hdf5_fail(error, result->path, array->group)
                                       : write_array(result, group, array, error);
    if (group >= 0) H5Gclose(group);
    nib_hdf5_quiet_leave(quiet);
    return status;
}

/* The values of one column as an array of its type; the caller frees it. */
static void *gather(const struct nib_table *table, size_t column, struct nib_error *error) {
    size_t rows = nib_table_rows(table);
    enum nib_column_type type = nib_table_column(table, column)->type;
    union {
        void *any;
        const char **text;
        int64_t *integer;
        double *real;
    } values = {nib_alloc_raw(rows, 8, "column of a result table", error)};
    for (size_t i = 0; i < rows && values.any != NULL; i++) switch (type) {
        case NIB_COLUMN_TEXT: values.text[i] = nib_table_text(table, i, column); break;
        case NIB_COLUMN_INTEGER: values.integer[i] = nib_table_integer(table, i, column); break;
        case NIB_COLUMN_REAL: values.real[i] = nib_table_real(table, i, column); break;
        }
    return values.any;
}

enum nib_status nib_result_table(struct nib_result *result, const char *group, const struct nib_table *table,
                                 struct nib_error *error) {
    static const enum nib_result_type types[] = {[NIB_COLUMN_TEXT] = NIB_RESULT_TEXT,
                                                 [NIB_COLUMN_INTEGER] = NIB_RESULT_I64,
                                                 [NIB_COLUMN_REAL] = NIB_RESULT_F64};
    enum nib_status status =
        nib_result_index_scale(result, group, "row", "row of the table", nib_table_rows(table), error);
    for (size_t i = 0; i < nib_table_columns(table) && status == NIB_OK; i++) {
        const struct nib_column *column = nib_table_column(table, i);
        void *values = gather(table, i, error);
        if (values == NULL) return NIB_ENOMEM;
        struct nib_result_array array = {.group = group, .name = column->name, .units = column->units,
                                         .long_name = column->long_name, .type = types[column->type], .rank = 1,
                                         .scales = {"row"}, .data = values};
        status = nib_result_array(result, &array, error);
        free(values);
    }
    return status;
}
