/* Records of a journal: the layout on disk. */
#ifndef NIB_EXPERIMENT_JOURNAL_RECORD_H
#define NIB_EXPERIMENT_JOURNAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 24 bytes, little-endian: "NJR1", length of the payload, number of the record, checksum; then the payload. Record 0
 * holds text: what the journal belongs to. The others hold the point as 8 bytes, then its packed result. */
enum { NIB_RECORD_HEAD = 24, NIB_RECORD_LONGEST = 1 << 30 };

struct nib_record {
    uint64_t number;
    const uint8_t *payload;
    size_t length;
};

void nib_record_head(uint64_t number, const uint8_t *payload, size_t length, uint8_t out[NIB_RECORD_HEAD]);
/* The record at `at`, if an intact one begins there. */
bool nib_record_at(const uint8_t *bytes, size_t size, size_t at, struct nib_record *out);
/* The place of the first intact record at or after `at`; `size` when there is none. */
size_t nib_record_next(const uint8_t *bytes, size_t size, size_t at);

#endif
