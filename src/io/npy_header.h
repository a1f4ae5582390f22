/* The header of the .npy format, versions 1 to 3; also what every member of an .npz begins with. */
#ifndef NIB_IO_NPY_HEADER_H
#define NIB_IO_NPY_HEADER_H

#include "io/entry.h"

/* Longest header that is read: numpy itself stops at 10000 characters. */
enum { NIB_NPY_LARGEST_HEADER = 65536 };

/* Fills in dtype, storage, shape, elements, bytes, item_bytes and fortran_order of `entry` from the
 * `available` first bytes of the array file, and the length of magic and header. `path` and `member` (may
 * be "") name the place in errors. */
enum nib_status nib_npy_header_read(const uint8_t *bytes, uint64_t available, const char *path, const char *member,
                                    struct nib_entry *entry, uint64_t *header_length, struct nib_error *error);

#endif
