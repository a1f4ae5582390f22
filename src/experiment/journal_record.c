#include "experiment/journal_record.h"

#include <string.h>
#include <xxhash.h>

static const char magic[4] = {'N', 'J', 'R', '1'};

static void put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *from, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* The number is part of the checksum, so that a record in the wrong place is no record. */
static uint64_t checksum(uint64_t number, const uint8_t *payload, size_t length) {
    return XXH3_64bits_withSeed(payload, length, number * UINT64_C(0x9E3779B97F4A7C15) + length);
}

void nib_record_head(uint64_t number, const uint8_t *payload, size_t length, uint8_t out[NIB_RECORD_HEAD]) {
    memcpy(out, magic, sizeof magic);
    put(out + 4, length, 4);
    put(out + 8, number, 8);
    put(out + 16, checksum(number, payload, length), 8);
}

bool nib_record_at(const uint8_t *bytes, size_t size, size_t at, struct nib_record *out) {
    if (size - at < NIB_RECORD_HEAD || memcmp(bytes + at, magic, sizeof magic) != 0) return false;
    uint64_t length = get(bytes + at + 4, 4);
    if (length > NIB_RECORD_LONGEST || length > size - at - NIB_RECORD_HEAD) return false;
    *out = (struct nib_record){get(bytes + at + 8, 8), bytes + at + NIB_RECORD_HEAD, (size_t)length};
    return get(bytes + at + 16, 8) == checksum(out->number, out->payload, out->length);
}

size_t nib_record_next(const uint8_t *bytes, size_t size, size_t at) {
    struct nib_record ignored;
    while (at < size) {
        const uint8_t *found = memmem(bytes + at, size - at, magic, sizeof magic);
        if (found == NULL) break;
        at = (size_t)(found - bytes);
        if (nib_record_at(bytes, size, at, &ignored)) return at;
        at++;
    }
    return size;
}
