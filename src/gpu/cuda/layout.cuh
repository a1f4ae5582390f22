#pragma once

#include <cstddef>
#include <cstdint>

int swizzle(const uint8_t *scales, size_t rows, size_t cols, unsigned tile_rows, uint8_t *out, char *error, size_t size);
