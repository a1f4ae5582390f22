/* A small vocabulary of vectors: NIB_LANES 32-bit lanes. The kernels are one text over it, compiled
 * once per instruction set. Types are those of gcc's vector extension, which also gives the plain
 * operators; what it lacks, or does slowly, is here. */
#ifndef NIB_UNIT_SIMD_H
#define NIB_UNIT_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512BW__)
#define NIB_LANES 16
#define NIB_ISA "avx512"
#elif defined(__AVX2__)
#define NIB_LANES 8
#define NIB_ISA "avx2"
#else
#define NIB_LANES 4
#define NIB_ISA "generic"
#endif
#if NIB_LANES > 4
#include <immintrin.h>
#endif

#define NIB_INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * NIB_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * NIB_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * NIB_LANES)));
typedef int16_t vh __attribute__((vector_size(4 * NIB_LANES))); /* two to a 32-bit lane */
typedef double vd __attribute__((vector_size(4 * NIB_LANES)));  /* half the lanes */
typedef int64_t vl __attribute__((vector_size(4 * NIB_LANES)));

NIB_INLINE vf f_load(const float *p) {
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}
NIB_INLINE vi i_load(const void *p) {
    vi x;
    memcpy(&x, p, sizeof x);
    return x;
}
NIB_INLINE vi i_set(int32_t x) { return (vi){0} + x; }
/* Four bytes from anywhere in every lane. */
typedef int32_t nib_any32 __attribute__((may_alias, aligned(1)));
NIB_INLINE vi i_broadcast(const void *p) { return i_set(*(const nib_any32 *)p); }
NIB_INLINE void i_store(void *p, vi x) { memcpy(p, &x, sizeof x); }
/* Modulo 2^32. */
NIB_INLINE vi i_wrap_add(vi x, vi y) { return (vi)((vu)x + (vu)y); }
NIB_INLINE vi i_select(vi mask, vi yes, vi no) { return (mask & yes) | (~mask & no); }
/* Fixes the order of a sum: free to choose one, gcc computes all terms first and spills them. */
#if defined(__x86_64__) && NIB_LANES > 4
NIB_INLINE vi i_pin(vi x) {
#if NIB_LANES == 16
    __asm__("" : "+v"(x));
#else
    __asm__("" : "+x"(x));
#endif
    return x;
}
#else
NIB_INLINE vi i_pin(vi x) { return x; }
#endif
NIB_INLINE vf f_keep(vi mask, vf x) { return (vf)(mask & (vi)x); }

/* d_multiply_add is for exact sums only: it may or may not round between. h_: 16-bit lanes; h_dot sums the products of
 * a pair. b_dot: unsigned bytes of x times signed bytes of y, a pair summed to 16 bits; callers stay below its
 * saturation. b_dot4 sums four to 32 bits. */
#if NIB_LANES == 16
NIB_INLINE vi i_max(vi x, vi y) { return (vi)_mm512_max_epi32((__m512i)x, (__m512i)y); }
NIB_INLINE vi i_min(vi x, vi y) { return (vi)_mm512_min_epi32((__m512i)x, (__m512i)y); }
NIB_INLINE vi h_adds(vi x, vi y) { return (vi)_mm512_adds_epi16((__m512i)x, (__m512i)y); }
NIB_INLINE vi h_max(vi x, vi y) { return (vi)_mm512_max_epi16((__m512i)x, (__m512i)y); }
NIB_INLINE vi h_add(vi x, vi y) { return (vi)_mm512_add_epi16((__m512i)x, (__m512i)y); }
NIB_INLINE vi h_mul(vi x, vi y) { return (vi)_mm512_mullo_epi16((__m512i)x, (__m512i)y); }
NIB_INLINE vi h_dot(vi x, vi y) { return (vi)_mm512_madd_epi16((__m512i)x, (__m512i)y); }
NIB_INLINE vi b_dot(vi x, vi y) { return (vi)_mm512_maddubs_epi16((__m512i)x, (__m512i)y); }
#define NIB_HAS_BYTE_DOT 1
NIB_INLINE vi b_dot4(vi sum, vi x, vi y) { return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)y); }
NIB_INLINE vi i_truncate(vf x) { return (vi)_mm512_cvttps_epi32((__m512)x); }
NIB_INLINE vf f_set(float x) { return (vf)_mm512_set1_ps(x); }
NIB_INLINE vf f_of_i(vi x) { return (vf)_mm512_cvtepi32_ps((__m512i)x); }
NIB_INLINE vd d_low(vi x) { return (vd)_mm512_cvtepi32_pd(_mm512_castsi512_si256((__m512i)x)); }
NIB_INLINE vd d_high(vi x) { return (vd)_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64((__m512i)x, 1)); }
NIB_INLINE vf f_of_d(vd low, vd high) {
    __m512 x = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));
    return (vf)_mm512_insertf32x8(x, _mm512_cvtpd_ps((__m512d)high), 1);
}
NIB_INLINE vd d_of_f_low(vf x) { return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
NIB_INLINE vd d_of_f_high(vf x) { return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
NIB_INLINE unsigned i_mask(vi x) { return _mm512_movepi32_mask((__m512i)x); }
NIB_INLINE unsigned l_mask(vl x) { return _mm512_movepi64_mask((__m512i)x); }
NIB_INLINE vf f_fma(vf x, vf y, vf z) { return (vf)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z); }
NIB_INLINE vd d_multiply_add(vd x, vd y, vd z) { return (vd)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z); }
NIB_INLINE vf f_fp16(vf x) { return (vf)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT)); }
#elif NIB_LANES == 8
NIB_INLINE vi i_max(vi x, vi y) { return (vi)_mm256_max_epi32((__m256i)x, (__m256i)y); }
NIB_INLINE vi i_min(vi x, vi y) { return (vi)_mm256_min_epi32((__m256i)x, (__m256i)y); }
NIB_INLINE vi h_adds(vi x, vi y) { return (vi)_mm256_adds_epi16((__m256i)x, (__m256i)y); }
NIB_INLINE vi h_max(vi x, vi y) { return (vi)_mm256_max_epi16((__m256i)x, (__m256i)y); }
NIB_INLINE vi h_add(vi x, vi y) { return (vi)_mm256_add_epi16((__m256i)x, (__m256i)y); }
NIB_INLINE vi h_mul(vi x, vi y) { return (vi)_mm256_mullo_epi16((__m256i)x, (__m256i)y); }
NIB_INLINE vi h_dot(vi x, vi y) { return (vi)_mm256_madd_epi16((__m256i)x, (__m256i)y); }
NIB_INLINE vi b_dot(vi x, vi y) { return (vi)_mm256_maddubs_epi16((__m256i)x, (__m256i)y); }
NIB_INLINE vi i_truncate(vf x) { return (vi)_mm256_cvttps_epi32((__m256)x); }
NIB_INLINE vf f_set(float x) { return (vf)_mm256_set1_ps(x); }
NIB_INLINE vf f_of_i(vi x) { return (vf)_mm256_cvtepi32_ps((__m256i)x); }
NIB_INLINE vd d_low(vi x) { return (vd)_mm256_cvtepi32_pd(_mm256_castsi256_si128((__m256i)x)); }
NIB_INLINE vd d_high(vi x) { return (vd)_mm256_cvtepi32_pd(_mm256_extracti128_si256((__m256i)x, 1)); }
NIB_INLINE vf f_of_d(vd low, vd high) {
    return (vf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
}
NIB_INLINE vd d_of_f_low(vf x) { return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
NIB_INLINE vd d_of_f_high(vf x) { return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
NIB_INLINE unsigned i_mask(vi x) { return (unsigned)_mm256_movemask_ps((__m256)x); }
NIB_INLINE unsigned l_mask(vl x) { return (unsigned)_mm256_movemask_pd((__m256d)x); }
NIB_INLINE vf f_fma(vf x, vf y, vf z) { return (vf)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z); }
NIB_INLINE vd d_multiply_add(vd x, vd y, vd z) { return (vd)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z); }
NIB_INLINE vf f_fp16(vf x) { return (vf)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT)); }
#else
#include "unit/simd_generic.h"
#endif

#endif
