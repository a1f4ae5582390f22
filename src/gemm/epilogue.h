/* From the accumulator to D. */
#ifndef NIB_GEMM_EPILOGUE_H
#define NIB_GEMM_EPILOGUE_H

#include <nibble/gemm.h>

/* An accumulator in binary32: exact, or to nearest from S32. */
float nib_epilogue_value(enum nib_accumulator accumulator, uint64_t bits);
/* x + y to nearest, with NVIDIA's one NaN. */
float nib_epilogue_sum(float x, float y);
/* The sum of two parts of K, in binary32 and back in the accumulator's format. */
uint64_t nib_epilogue_add(enum nib_accumulator accumulator, uint64_t x, uint64_t y);
/* alpha, beta and the conversion to the output type; not for NIB_GEMM_ACCUMULATOR. */
uint64_t nib_epilogue_bits(const struct nib_gemm *gemm, float value, float c);
/* The exact value of one element of D as binary64; S32 and all others fit. */
double nib_epilogue_decode(const struct nib_gemm *gemm, const void *d, size_t index);

#endif
