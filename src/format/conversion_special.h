/* Conversions that fit no common form; binary32 bits in, code out. Named in conversions.def. */
#ifndef NIB_FORMAT_CONVERSION_SPECIAL_H
#define NIB_FORMAT_CONVERSION_SPECIAL_H

#include <stdint.h>

uint32_t nib_aiter_down(uint32_t bits);
uint32_t nib_aiter_up(uint32_t bits);
uint32_t nib_aiter_up_cpu(uint32_t bits);
uint32_t nib_aiter_even(uint32_t bits);
uint32_t nib_aiter_even_cpu(uint32_t bits);
uint32_t nib_aiter_ceil(uint32_t bits);
uint32_t nib_auto_round_ue5m3(uint32_t bits);

#endif
