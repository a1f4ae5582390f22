/* A whole file, mapped read-only. */
#ifndef NIB_IO_MAPPING_H
#define NIB_IO_MAPPING_H

#include <stddef.h>
#include <nibble/status.h>

struct nib_mapping {
    char *path;
    const uint8_t *data;
    uint64_t size;
};

/* Maps a regular file that is not empty; anything else is an error that names it. The size is checked
 * again after mapping, so that a file that shrinks while it is opened is refused. */
enum nib_status nib_mapping_open(const char *path, struct nib_mapping **out, struct nib_error *error);
/* Tells the system that these bytes have been used: they leave the memory of this process, and are read again if they are
 * asked for again. Bytes outside the mapping are left alone. */
void nib_mapping_release(const struct nib_mapping *mapping, const void *data, uint64_t bytes);
void nib_mapping_close(struct nib_mapping *mapping);

#endif
