/* The inside of a result file that is being built. */
#ifndef NIB_IO_HDF5_RESULT_H
#define NIB_IO_HDF5_RESULT_H

#include <hdf5.h>

struct nib_result {
    char *path;
    hid_t file;                  /* in memory until it is committed */
};

#endif
