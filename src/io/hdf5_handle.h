/* Small helpers around the HDF5 library: quiet calls, the reason of a failure, groups, attributes, datasets. */
#ifndef NIB_IO_HDF5_HANDLE_H
#define NIB_IO_HDF5_HANDLE_H

#include <hdf5.h>
#include <nibble/status.h>

/* HDF5 prints its error stack on stderr unless told not to; the caller's setting comes back afterwards. */
struct nib_hdf5_quiet {
    H5E_auto2_t function;
    void *data;
};
struct nib_hdf5_quiet nib_hdf5_quiet_enter(void);
void nib_hdf5_quiet_leave(struct nib_hdf5_quiet saved);

/* NIB_EIO with HDF5's own reason for the last failure. */
enum nib_status nib_hdf5_fail(struct nib_error *error, const char *file, const char *what);

/* Opens a file for reading; says in words of its own what is no file, and what is none of HDF5. */
enum nib_status nib_hdf5_open(const char *path, hid_t *out, struct nib_error *error);

/* A variable-length UTF-8 string type, or a negative value. */
hid_t nib_hdf5_text_type(void);
/* Opens the group `path` below `file`, creating what is missing with the creation order tracked; negative on failure. */
hid_t nib_hdf5_group(hid_t file, const char *path);
/* A scalar attribute; replaced where it exists. Text is made valid UTF-8. */
bool nib_hdf5_attribute(hid_t object, const char *name, hid_t memory_type, const void *value);
bool nib_hdf5_text_attribute(hid_t object, const char *name, const char *value);
/* Of variable length, read; "" without one. The caller frees it. */
char *nib_hdf5_text_attribute_read(hid_t object, const char *name);

#endif
