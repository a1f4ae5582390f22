/* HDF5 files: every dataset of numbers is a tensor named by its path; attributes of the root group and of a
 * quantized tensor (/elements, /scales), and everything under /provenance, become metadata. Datasets are read when they are asked for. */
#include "io/entry.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/hdf5_handle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct nib_file *file;
    struct nib_error *error;
    enum nib_status status;
};

static bool is_bfloat16(hid_t type) {
    size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
    return H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 && sign == 15 &&
           exponent == 7 && exponent_bits == 8 && mantissa_bits == 7 && H5Tget_ebias(type) == 127;
}

/* "F32", "BF16", "U8"; small floats by their fields, "F4_E2M1". HDF5 would read their highest exponent as infinity,
 * so they are only ever seen as bytes. */
static bool name_type(hid_t type, struct nib_entry *entry) {
    size_t size = H5Tget_size(type), sign, exponent, exponent_bits, mantissa, mantissa_bits;
    if (size == 0 || size > 16) return false;
    entry->item_bytes = (unsigned)size;
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        snprintf(entry->dtype, sizeof entry->dtype, "%c%zu", H5Tget_sign(type) == H5T_SGN_NONE ? 'U' : 'I', 8 * size);
        return true;
    case H5T_ENUM: snprintf(entry->dtype, sizeof entry->dtype, "ENUM%zu", 8 * size); return true;
    case H5T_FLOAT: break;
    default: return false;
    }
    if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) return false;
    snprintf(entry->dtype, sizeof entry->dtype, "F%zu_E%zuM%zu", H5Tget_precision(type), exponent_bits, mantissa_bits);
    size_t ebias = H5Tget_ebias(type);
    if (size == 4 && exponent_bits == 8 && mantissa_bits == 23 && ebias == 127) entry->storage = NIB_STORED_F32;
    if (size == 2 && exponent_bits == 5 && mantissa_bits == 10 && ebias == 15) entry->storage = NIB_STORED_F16;
    if (size == 8 && exponent_bits == 11 && mantissa_bits == 52 && ebias == 1023) entry->storage = NIB_STORED_F64;
    if (size == 2 && is_bfloat16(type)) entry->storage = NIB_STORED_BF16;
    static const char *const names[] = {[NIB_STORED_F32] = "F32", [NIB_STORED_F16] = "F16", [NIB_STORED_F64] = "F64",
                                        [NIB_STORED_BF16] = "BF16"};
    if (entry->storage != NIB_STORED_BYTES) strcpy(entry->dtype, names[entry->storage]);
    return true;
}

/* Data outside the file would be read from wherever the file says. */
static bool is_inside(hid_t dataset) {
    hid_t properties = H5Dget_create_plist(dataset);
    bool inside = properties >= 0 && H5Pget_layout(properties) != H5D_VIRTUAL && H5Pget_external_count(properties) <= 0;
    if (properties >= 0) H5Pclose(properties);
    return inside;
}

static enum nib_status describe(struct nib_file *file, hid_t dataset, const char *name, struct nib_error *error) {
    char shown[80];
    hsize_t extents[H5S_MAX_RANK];
    enum nib_status status = NIB_OK;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    nib_printable(name, shown);
    struct nib_entry *entry = nib_file_add(file, name, file->path, error);
    if (entry == NULL) {
        status = NIB_ENOMEM;
    } else if (type < 0 || rank < 0) {
        status = nib_hdf5_fail(error, file->path, shown);
    } else if (rank > NIB_ENTRY_RANK) {
        status = nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "dataset \"%s\" has %d dimensions; at most %d are supported",
                             shown, rank, NIB_ENTRY_RANK);
    } else if (H5Sget_simple_extent_type(space) == H5S_NULL) {
        file->count--;
        free(entry->name);
    } else {
        if (rank > 0 && H5Sget_simple_extent_dims(space, extents, NULL) < 0)
            status = nib_hdf5_fail(error, file->path, shown);
        entry->rank = (unsigned)rank;
        for (int i = 0; i < rank && status == NIB_OK; i++) entry->shape[i] = extents[i];
        if (!name_type(type, entry)) {
            entry->item_bytes = 0;
            strcpy(entry->dtype, H5Tget_class(type) == H5T_STRING ? "TEXT" : "OTHER");
        }
        /* Deflate shrinks at most a thousandfold; more is a lie that would cost the memory of the machine. */
        if (status == NIB_OK && (!nib_entry_count(entry) ||
                                 __builtin_mul_overflow(entry->elements, entry->item_bytes, &entry->bytes) ||
                                 entry->bytes / 2048 > file->mappings[0]->size))
            status = nib_fail_at(error, NIB_EINCONSISTENT, file->path, 0,
                                 "dataset \"%s\": the extents are larger than the file can hold", shown);
        if (status == NIB_OK && !is_inside(dataset))
            status = nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "dataset \"%s\" keeps its data in other files", shown);
    }
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    return status;
}

static herr_t visit(hid_t root, const char *name, const H5O_info_t *about, void *context) {
    struct reading *reading = context;
    if (about->type != H5O_TYPE_DATASET) return 0;
    char shown[80];
    hid_t dataset = H5Dopen2(root, name, H5P_DEFAULT);
    reading->status = dataset < 0 ? nib_hdf5_fail(reading->error, reading->file->path, nib_printable(name, shown))
                                  : describe(reading->file, dataset, name, reading->error);
    if (dataset >= 0) H5Dclose(dataset);
    return reading->status == NIB_OK ? 0 : -1;
}

/* A scalar attribute as text; NULL where it is no scalar of text or number. The caller frees it. */
static char *attribute_text(hid_t attribute) {
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    char *text = NULL;
    if (type >= 0 && space >= 0 && H5Sget_simple_extent_npoints(space) == 1) {
        char buffer[64] = "";
        long long integer;
        double real;
        size_t size = H5Tget_size(type);
        if (H5Tget_class(type) == H5T_INTEGER && H5Aread(attribute, H5T_NATIVE_LLONG, &integer) >= 0) {
            snprintf(buffer, sizeof buffer, "%lld", integer);
            text = strdup(buffer);
        } else if (H5Tget_class(type) == H5T_FLOAT && H5Aread(attribute, H5T_NATIVE_DOUBLE, &real) >= 0) {
            snprintf(buffer, sizeof buffer, "%.17g", real);
            text = strdup(buffer);
        } else if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0) {
            char *value = NULL;
            if (H5Aread(attribute, type, &value) >= 0 && value != NULL) {
                text = strdup(value);
                H5free_memory(value);
            }
        } else if (H5Tget_class(type) == H5T_STRING && size < 1 << 20 && (text = calloc(size + 1, 1)) != NULL &&
                   H5Aread(attribute, type, text) < 0) {
            free(text);
            text = NULL;
        }
    }
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    return text;
}

static enum nib_status read_attributes(struct nib_file *file, hid_t root, const char *path, struct nib_error *error) {
    enum nib_status status = NIB_OK;
    hid_t group = H5Gopen2(root, path, H5P_DEFAULT);
    int count = group < 0 ? 0 : H5Aget_num_attrs(group);
    for (int i = 0; i < count && status == NIB_OK; i++) {
        char name[128] = "", key[160];
        hid_t attribute = H5Aopen_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)i, H5P_DEFAULT, H5P_DEFAULT);
        char *text = attribute < 0 || H5Aget_name(attribute, sizeof name, name) < 0 ? NULL : attribute_text(attribute);
        if (text != NULL) {
            snprintf(key, sizeof key, "%s%s%s", path + 1, path[1] == '\0' ? "" : "/", name);
            status = nib_file_add_metadata(file, key, text, error);
        }
        free(text);
        if (attribute >= 0) H5Aclose(attribute);
    }
    if (group >= 0) H5Gclose(group);
    return status;
}

/* A one-dimensional dataset of variable-length texts; the caller frees the strings and the array. */
static char **read_texts(hid_t root, const char *path, size_t *count) {
    hid_t dataset = H5Dopen2(root, path, H5P_DEFAULT), space = dataset < 0 ? -1 : H5Dget_space(dataset);
    hid_t type = dataset < 0 ? -1 : H5Dget_type(dataset);
    hssize_t points = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    char **texts = NULL;
    if (points > 0 && points < 1 << 20 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0 &&
        (texts = calloc((size_t)points, sizeof *texts)) != NULL) {
        if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts) < 0) {
            free(texts);
            texts = NULL;
        } else {
            *count = (size_t)points;
        }
    }
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (dataset >= 0) H5Dclose(dataset);
    return texts;
}

static void free_texts(char **texts, size_t count) {
    for (size_t i = 0; texts != NULL && i < count; i++) H5free_memory(texts[i]);
    free(texts);
}

/* Two columns of a provenance table as metadata "provenance/TABLE/NAME" = VALUE. */
static enum nib_status read_pairs(struct nib_file *file, hid_t root, const char *table, const char *name,
                                  const char *value, struct nib_error *error) {
    char path[96];
    size_t names = 0, values = 0;
    enum nib_status status = NIB_OK;
    snprintf(path, sizeof path, "/provenance/%s", table);
    if (H5Lexists(root, "/provenance", H5P_DEFAULT) <= 0 || H5Lexists(root, path, H5P_DEFAULT) <= 0) return NIB_OK;
    snprintf(path, sizeof path, "/provenance/%s/%s", table, name);
    char **name_texts = read_texts(root, path, &names);
    snprintf(path, sizeof path, "/provenance/%s/%s", table, value);
    char **value_texts = read_texts(root, path, &values);
    for (size_t i = 0; i < names && i < values && status == NIB_OK; i++) {
        char key[512];
        snprintf(key, sizeof key, "provenance/%s/%s", table, name_texts[i] == NULL ? "" : name_texts[i]);
        status = nib_file_add_metadata(file, key, value_texts[i] == NULL ? "" : value_texts[i], error);
    }
    free_texts(name_texts, names);
    free_texts(value_texts, values);
    return status;
}

static enum nib_status load_dataset(struct nib_file *file, struct nib_entry *entry, struct nib_error *error) {
    char shown[80];
    nib_printable(entry->name, shown);
    if (entry->item_bytes == 0)
        return nib_fail_at(error, NIB_EINVAL, file->path, 0, "dataset \"%s\" does not hold numbers", shown);
    uint8_t *bytes = nib_alloc((size_t)entry->bytes, 1, file->path, error);
    if (bytes == NULL) return NIB_ENOMEM;
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    enum nib_status status = NIB_OK;
    hid_t id = H5Fopen(file->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = id < 0 ? -1 : H5Dopen2(id, entry->name, H5P_DEFAULT);
    hid_t space = dataset < 0 ? -1 : H5Dget_space(dataset), type = dataset < 0 ? -1 : H5Dget_type(dataset);
    hid_t memory = type < 0 ? -1 : H5Tcopy(type);
    if (memory >= 0 && entry->item_bytes > 1 && H5Tget_class(type) != H5T_ENUM) H5Tset_order(memory, H5T_ORDER_LE);
    if (space < 0 || memory < 0 || (uint64_t)H5Sget_simple_extent_npoints(space) != entry->elements ||
        H5Tget_size(memory) != entry->item_bytes ||
        H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0)
        status = nib_hdf5_fail(error, file->path, shown);
    if (memory >= 0) H5Tclose(memory);
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (dataset >= 0) H5Dclose(dataset);
    if (id >= 0) H5Fclose(id);
    nib_hdf5_quiet_leave(quiet);
    if (status == NIB_OK)
        entry->owned = bytes;
    else
        free(bytes);
    return status;
}

enum nib_status nib_hdf5_read(struct nib_file *file, struct nib_error *error) {
    static const char *const tables[][3] = {{"formats", "name", "sha256"}, {"inputs", "path", "xxh3_128"},
                                            {"seeds", "name", "value"}, {"libraries", "name", "version"},
                                            {"environment", "name", "value"}, {"digests", "dataset", "xxh3_128"}};
    static const char *const groups[] = {"/provenance", "/elements", "/scales"};
    struct reading reading = {file, error, NIB_OK};
    file->kind = "hdf5";
    file->load = load_dataset;
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    hid_t id = H5Fopen(file->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (id < 0) {
        reading.status = nib_hdf5_fail(error, file->path, "cannot open");
    } else {
        if (H5Ovisit2(id, H5_INDEX_NAME, H5_ITER_INC, visit, &reading, H5O_INFO_BASIC) < 0 && reading.status == NIB_OK)
            reading.status = nib_hdf5_fail(error, file->path, "cannot list the datasets");
        if (reading.status == NIB_OK) reading.status = read_attributes(file, id, "/", error);
        for (size_t i = 0; i < sizeof groups / sizeof *groups && reading.status == NIB_OK; i++)
            if (H5Lexists(id, groups[i], H5P_DEFAULT) > 0) reading.status = read_attributes(file, id, groups[i], error);
        for (size_t i = 0; i < sizeof tables / sizeof *tables && reading.status == NIB_OK; i++)
            reading.status = read_pairs(file, id, tables[i][0], tables[i][1], tables[i][2], error);
        H5Fclose(id);
    }
    nib_hdf5_quiet_leave(quiet);
    return reading.status;
}
