/* Result files: HDF5 that h5py reads and xarray opens, group by group.
 *
 *     struct nib_result *result;
 *     nib_result_open("bias.h5", "bias of 4-bit formats", &result, error);
 *     nib_result_table(result, "bias", table, error);
 *     nib_result_text_scale(result, "levels", "quantizer", "quantizer", names, count, error);
 *     nib_result_real_scale(result, "levels", "level", "1", "level of the element grid", levels, 8, error);
 *     nib_result_array(result, &(struct nib_result_array){.group = "levels", .name = "bias", .units = "1", ...}, error);
 *     nib_result_commit(result, provenance, error);       or nib_result_abandon(result)
 *
 * The file is built in memory. Commit writes it beside the target under a temporary name, syncs and renames it, so
 * that no reader ever sees half a file and a failure leaves the old one alone. Groups may be nested ("a/b"); the root
 * group holds only groups and attributes. Not for use inside parallel regions. */
#ifndef NIB_IO_HDF5_OUT_H
#define NIB_IO_HDF5_OUT_H

#include <nibble/table.h>

#include "io/provenance.h"

struct nib_result;

/* For a program, before anything else of HDF5: at exit the library shall not close what it lost in a damaged file, which it
 * does with lines on stderr. Every file of nibble is closed by then. */
void nib_hdf5_quiet_exit(void);

/* Checks at once that the folder of `path` can be written. */
enum nib_status nib_result_open(const char *path, const char *title, struct nib_result **out, struct nib_error *error);

/* One dataset per column, over the dimension scale `row` (0, 1, ...); text columns are variable-length UTF-8. */
enum nib_status nib_result_table(struct nib_result *result, const char *group, const struct nib_table *table,
                                 struct nib_error *error);

/* Dimension scales: coordinates of the arrays of the same group. */
enum nib_status nib_result_text_scale(struct nib_result *result, const char *group, const char *name,
                                      const char *long_name, const char *const *values, size_t count,
                                      struct nib_error *error);
enum nib_status nib_result_integer_scale(struct nib_result *result, const char *group, const char *name,
                                         const char *units, const char *long_name, const int64_t *values, size_t count,
                                         struct nib_error *error);
enum nib_status nib_result_real_scale(struct nib_result *result, const char *group, const char *name, const char *units,
                                      const char *long_name, const double *values, size_t count,
                                      struct nib_error *error);
/* 0, 1, ..., count-1. */
enum nib_status nib_result_index_scale(struct nib_result *result, const char *group, const char *name,
                                       const char *long_name, size_t count, struct nib_error *error);

enum nib_result_type {
    NIB_RESULT_F64,
    NIB_RESULT_F32,
    NIB_RESULT_I64,
    NIB_RESULT_U8,
    NIB_RESULT_U16,
    NIB_RESULT_U32,
    NIB_RESULT_TEXT
};

/* A row-major array whose extents are those of the named scales of its group, slowest first. Four-bit codes and
 * packed bytes are NIB_RESULT_U8 (one code, or two, a byte), in a group of their own; wider scale codes are U16 or U32. */
struct nib_result_array {
    const char *group, *name, *units, *long_name; /* units and long_name may be NULL */
    enum nib_result_type type;
    unsigned rank;
    const char *scales[8];
    const void *data;            /* double, float, int64_t, uint8_t, ... or const char * */
};
enum nib_status nib_result_array(struct nib_result *result, const struct nib_result_array *array,
                                 struct nib_error *error);

/* An attribute of a group (`name` NULL) or of a dataset in it. */
enum nib_status nib_result_text_attribute(struct nib_result *result, const char *group, const char *name,
                                          const char *attribute, const char *value, struct nib_error *error);
enum nib_status nib_result_integer_attribute(struct nib_result *result, const char *group, const char *name,
                                             const char *attribute, int64_t value, struct nib_error *error);
enum nib_status nib_result_real_attribute(struct nib_result *result, const char *group, const char *name,
                                          const char *attribute, double value, struct nib_error *error);

/* Adds /provenance, writes the file and frees `result`, also on failure (then nothing is left on disk). */
enum nib_status nib_result_commit(struct nib_result *result, const struct nib_provenance *provenance,
                                  struct nib_error *error);
/* Frees without writing; NULL is allowed. */
void nib_result_abandon(struct nib_result *result);

#endif
