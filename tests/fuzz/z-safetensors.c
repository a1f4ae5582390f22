/* libFuzzer target: .safetensors files and shard indices. */
#include "fuzz/read_bytes.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    enum nib_status opened;
    if (!nib_read_bytes(bytes, size, &opened)) abort();
    return 0;
}
