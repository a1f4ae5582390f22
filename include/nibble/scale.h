/* Scale formats: E8M0, E4M3, E5M2, UE5M3, FP32, BF16, and codecs between their bytes and binary32. */
#ifndef NIBBLE_SCALE_H
#define NIBBLE_SCALE_H

#include <stddef.h>
#include <nibble/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* HIF4: an E6M2 number in the lowest byte (2^-48 to 49152, 0xFF being NaN), above it a doubling of each of 8 parts of the
 * block, bits 8 to 15, and of each of 16 parts, bits 16 to 31. */
enum nib_scale_kind { NIB_SCALE_E8M0, NIB_SCALE_MINIFLOAT, NIB_SCALE_BF16, NIB_SCALE_FP32, NIB_SCALE_HIF4 };

/* Rounding of a real scale into its format. NEAREST is nearest-even for minifloats and BF16; for
 * E8M0 it is nearest in value, a tie (1.5 * 2^k) going to the even exponent code. */
enum nib_scale_rounding { NIB_SCALE_NEAREST, NIB_SCALE_UP, NIB_SCALE_DOWN };

struct nib_scale {
    char name[40];
    char title[96];
    char source[160];
    enum nib_scale_kind kind;
    unsigned bits;             /* 8, 16 or 32 */
    unsigned bytes;            /* 1, 2 or 4 */
    bool has_sign;             /* E4M3 and E5M2 carry a sign bit; as block scales it stays 0 */
    int ebits, mbits, bias;    /* minifloats */
    uint32_t max_code;         /* largest finite code (E4M3: 0x7E) */
    uint32_t nan_code;         /* E4M3 0x7F, E8M0 0xFF */
    float max_value;           /* 448 for E4M3 */
    const char *text;
    char sha256[65];
};

NIB_API NIB_CHECK enum nib_status nib_scale_open(const char *name_or_path, const struct nib_scale **out,
                                                 struct nib_error *error);
NIB_API NIB_CHECK enum nib_status nib_scale_parse(const char *text, size_t length, const char *label,
                                                  const struct nib_scale **out, struct nib_error *error);
NIB_API void nib_scale_close(const struct nib_scale *scale);

/* Saturating encode of a binary32 value: above the largest finite value the largest code; NaN gives
 * nan_code. For E8M0 the sign is ignored, zero and values below 2^-127 give 0x00 (CUDA's satfinite
 * conversions). For signed minifloats the sign is kept. E4M3 here equals
 * __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3), except that NaN keeps no sign. */
NIB_API uint32_t nib_scale_encode(const struct nib_scale *scale, enum nib_scale_rounding mode, float value);
/* Parts of a block that the code scales differently, one after the other: 16 for HIF4, otherwise 1; and the value for
 * one of them. */
NIB_API unsigned nib_scale_parts(const struct nib_scale *scale);
NIB_API float nib_scale_decode_part(const struct nib_scale *scale, uint32_t code, unsigned part);
/* Exact value of a code, of HIF4 without the doublings (every code of every format here is a binary32 number). */
NIB_API float nib_scale_decode(const struct nib_scale *scale, uint32_t code);

#ifdef __cplusplus
}
#endif
#endif
