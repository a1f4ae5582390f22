/* Rounding: count the thresholds at or below the number. Integers only, no branches, so that loops
 * over it vectorise. NaN must be handled before. */
#ifndef NIB_CORE_ROUND_H
#define NIB_CORE_ROUND_H

#include "core/key.h"
#include <nibble/element.h>

/* The rank of a number in any grid: 15 comparisons. */
static inline uint32_t nib_round_rank(const int32_t threshold[NIB_THRESHOLDS], uint32_t bits) {
    int32_t key = nib_key_of_bits(bits);
    uint32_t rank = 0;
    for (int i = 0; i < NIB_THRESHOLDS; i++) rank += (uint32_t)(key >= threshold[i]);
    return rank;
}

static inline uint32_t nib_round_code_of_rank(uint64_t codes, uint32_t rank) {
    return (uint32_t)(codes >> 4 * rank) & 15;
}

/* The code in a symmetric grid: 7 comparisons of the magnitude, then the sign. */
static inline uint32_t nib_round_magnitude(const int32_t magnitude_threshold[7], uint32_t bits) {
    int32_t magnitude = (int32_t)(bits & NIB_BITS_MAGNITUDE);
    uint32_t code = 0;
    for (int i = 0; i < 7; i++) code += (uint32_t)(magnitude >= magnitude_threshold[i]);
    return code | (bits >> 31 << 3);
}

/* The code of one number by a compiled rule. */
static inline uint32_t nib_round_code(const struct nib_rule *rule, uint32_t bits) {
    return rule->symmetric ? nib_round_magnitude(rule->magnitude_threshold, bits)
                           : nib_round_code_of_rank(rule->codes, nib_round_rank(rule->threshold, bits));
}

#endif
