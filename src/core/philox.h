/* Philox4x32-10, the counter-based generator of Salmon et al. (SC 2011): random words are a function
 * of key and counter, so that results cannot depend on the order of execution. */
#ifndef NIB_CORE_PHILOX_H
#define NIB_CORE_PHILOX_H

#include <stdint.h>

struct nib_philox_block {
    uint32_t word[4];
};

static inline struct nib_philox_block nib_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct nib_philox_block){{c0, c1, c2, c3}};
}

#endif
