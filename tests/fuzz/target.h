/* What a fuzz target defines, by libFuzzer's name. */
#ifndef NIB_FUZZ_TARGET_H
#define NIB_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
