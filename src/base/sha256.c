#include "base/sha256.h"

#include <sys/types.h>
#include <sha256.h>

void nib_sha256_hex(const void *data, size_t length, char out[65]) { SHA256Data(data, length, out); }
