#ifndef NIB_BASE_SHA256_H
#define NIB_BASE_SHA256_H

#include <stddef.h>

/* Writes 64 hexadecimal digits and a NUL. */
void nib_sha256_hex(const void *data, size_t length, char out[65]);

#endif
