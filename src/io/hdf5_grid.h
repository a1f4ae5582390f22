/* Arrays over dimension scales, read as a table with a row for every cell. */
#ifndef NIB_IO_HDF5_GRID_H
#define NIB_IO_HDF5_GRID_H

#include "io/hdf5_handle.h"
#include "io/hdf5_table.h"

/* Whether a group holds numbers over dimension scales of its own. */
bool nib_hdf5_is_grid(hid_t file, const char *group);
/* "row", a column for each scale of the array with the most of them (`axes` in number, in their order, the last the
 * fastest), then every array over some of these scales, repeated along the others. */
NIB_CHECK enum nib_status nib_hdf5_grid_read(hid_t file, const char *path, const char *group, struct nib_stored_table *out,
                                             struct nib_error *error);

#endif
