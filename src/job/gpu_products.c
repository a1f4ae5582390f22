#include "job/gpu_products.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/convert.h"
#include "core/philox.h"
#include "core/scale_codec.h"

const char *const nib_gpu_operands_names[NIB_GPU_OPERANDS_COUNT] = {"random bits", "gaussian",   "exponent spread",
                                                                    "cancelling",  "subnormals", "specials"};

/* Fields of the floating-point operands, in their own width. */
struct layout {
    unsigned bits, mantissa;     /* of the pattern; explicit fraction bits */
    uint32_t infinity, nan, largest; /* 0 where there is none */
};
static struct layout layout_of(enum nib_operand format) {
    switch (format) {
    case NIB_OPERAND_BF16: return (struct layout){16, 7, 0x7F80, 0x7FC1, 0x7F7F};
    case NIB_OPERAND_FP16: return (struct layout){16, 10, 0x7C00, 0x7E01, 0x7BFF};
    case NIB_OPERAND_TF32: return (struct layout){32, 23, 0x7F800000, 0x7FC00001, 0x7F7FFFFF};
    case NIB_OPERAND_E4M3: return (struct layout){8, 3, 0, 0x7F, 0x7E};
    case NIB_OPERAND_E5M2: return (struct layout){8, 2, 0x7C, 0x7E, 0x7B};
    case NIB_OPERAND_E2M1: return (struct layout){4, 1, 0, 0, 7};
    default: return (struct layout){8, 0, 0, 0, 0x7F};
    }
}

static uint32_t encode(enum nib_operand format, float x) {
    uint32_t bits = nib_bits_of_float(x), sign = bits >> 31;
    switch (format) {
    case NIB_OPERAND_BF16: return nib_bf16_of_bits(bits);
    case NIB_OPERAND_FP16: return nib_f16_of_bits(bits);
    case NIB_OPERAND_TF32: return bits;
    case NIB_OPERAND_E4M3: return nib_e4m3_encode(bits, NIB_SCALE_NEAREST) | sign << 7;
    case NIB_OPERAND_E5M2: return nib_e5m2_encode(bits, NIB_SCALE_NEAREST) | sign << 7;
    case NIB_OPERAND_E2M1: {
        static const float middle[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
        uint32_t code = 0;
        for (int i = 0; i < 7; i++) code += fabsf(x) > middle[i];
        return code | sign << 3;
    }
    default: {
        float y = x * 40;
        y = y > 127 ? 127 : y < -128 ? -128 : y;
        return (uint32_t)(int32_t)y & 0xFF;
    }
    }
}

static float gaussian(const uint32_t w[4]) {
    double u = ((double)w[0] + 0.5) * 0x1p-32, v = ((double)w[1] + 0.5) * 0x1p-32;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

static uint32_t one(enum nib_gpu_operands set, enum nib_operand format, bool right, const uint32_t w[4]) {
    const struct layout f = layout_of(format);
    const uint32_t mask = f.bits == 32 ? 0xFFFFFFFFu : (1u << f.bits) - 1, sign = w[3] & 1u << (f.bits - 1);
    if (format == NIB_OPERAND_S8) return set == NIB_GPU_OPERANDS_GAUSSIAN ? encode(format, gaussian(w)) : w[2] & 0xFF;
    switch (set) {
    case NIB_GPU_OPERANDS_BITS: return w[2] & mask;
    case NIB_GPU_OPERANDS_SPREAD: {
        int reach = format == NIB_OPERAND_E2M1 ? 2 : f.bits == 8 ? 7 : 13;
        float x = ldexpf(1 + (float)(w[0] >> 9) * 0x1p-23f, (int)(w[1] % (unsigned)(2 * reach)) - reach);
        return encode(format, w[2] & 1 ? x : -x);
    }
    case NIB_GPU_OPERANDS_SUBNORMAL: {
        uint32_t fraction = w[0] & ((1u << f.mantissa) - 1), exponent = w[1] % 4 == 0 ? w[1] / 4 % 4 : 0;
        if (right && f.bits >= 16) return encode(format, ldexpf(gaussian(w), (int)(w[2] % 30) - 5));
        return fraction | exponent << f.mantissa | sign;
    }
    case NIB_GPU_OPERANDS_SPECIAL:
        switch (w[2] % 160) {
        case 0: return f.infinity | sign;
        case 1: return f.nan | sign;
        case 2: return f.largest | sign;
        case 3:
        case 4:
        case 5: return sign;
        default: break;
        }
        return encode(format, gaussian(w));
    default: return encode(format, gaussian(w));
    }
}

static void put(void *out, unsigned bits, size_t i, uint32_t code) {
    uint8_t *bytes = out;
    if (bits == 4)
        bytes[i / 2] = (uint8_t)(i % 2 == 0 ? code : bytes[i / 2] | code << 4);
    else
        memcpy(bytes + i * (bits / 8), &code, bits / 8);
}

void nib_gpu_operands_fill(enum nib_gpu_operands set, enum nib_operand format, bool right, uint64_t seed, size_t rows,
                           size_t k, void *out) {
    const unsigned bits = nib_operand_bits(format);
    const uint64_t stream = (uint64_t)set * 2 + right + 100;
#pragma omp parallel for schedule(static) if (rows * k > 1 << 17)
    for (size_t r = 0; r < rows; r++) {
        uint32_t before = 0;
        for (size_t i = 0; i < k; i++) {
            struct nib_philox_block w = nib_philox(seed, r * k + i, stream);
            uint32_t code = one(set, format, right, w.word);
            /* Odd elements repeat the one before: negated in A, a step away now and then, unchanged in B. */
            if (set == NIB_GPU_OPERANDS_CANCEL && i % 2 == 1 && w.word[3] % 8 != 0) {
                uint32_t step = w.word[3] / 8 % 4 == 0 && (before & 7) != 7 ? 1 : 0;
                if (format == NIB_OPERAND_S8)
                    code = right ? before : (uint32_t)-(int32_t)before & 0xFF;
                else
                    code = right ? before : (before ^ 1u << (bits - 1)) + step;
            }
            put(out, bits, r * k + i, code);
            before = code;
        }
    }
}

void nib_gpu_accumulators_fill(enum nib_gpu_operands set, enum nib_accumulator format, uint64_t seed, size_t count,
                               void *out) {
#pragma omp parallel for schedule(static) if (count > 1 << 17)
    for (size_t i = 0; i < count; i++) {
        struct nib_philox_block w = nib_philox(seed, i, 99);
        float g = ldexpf(gaussian(w.word), set == NIB_GPU_OPERANDS_SPREAD      ? (int)(w.word[2] % 40) - 20
                                           : set == NIB_GPU_OPERANDS_SUBNORMAL ? -(int)(w.word[2] % 150)
                                                                               : 2);
        bool zero = w.word[3] % 4 == 0;
        uint32_t bits = zero ? (w.word[3] & 0x80000000u) : nib_bits_of_float(g);
        if (set == NIB_GPU_OPERANDS_BITS && !zero) bits = w.word[2];
        if (format == NIB_ACC_S32) {
            ((uint32_t *)out)[i] = zero ? 0 : w.word[2];
        } else if (format == NIB_ACC_FP16) {
            uint16_t half = set == NIB_GPU_OPERANDS_BITS && !zero ? (uint16_t)w.word[2] : nib_f16_of_bits(bits);
            memcpy((char *)out + 2 * i, &half, 2);
        } else {
            memcpy((char *)out + 4 * i, &bits, 4);
        }
    }
}

void nib_gpu_scales_fill(enum nib_gpu_operands set, enum nib_unit_scale format, uint64_t seed, size_t count,
                         uint8_t *out) {
    for (size_t i = 0; i < count; i++) {
        struct nib_philox_block w = nib_philox(seed, i, 98);
        uint32_t r = w.word[0];
        if (set == NIB_GPU_OPERANDS_BITS)
            out[i] = (uint8_t)(format == NIB_UNIT_SCALE_UE4M3 ? r & 0x7F : r);
        else if (set == NIB_GPU_OPERANDS_SUBNORMAL)
            out[i] = (uint8_t)(format == NIB_UNIT_SCALE_UE4M3 ? r % 12 : 60 + r % 20);
        else if (set == NIB_GPU_OPERANDS_SPREAD)
            out[i] = (uint8_t)(format == NIB_UNIT_SCALE_UE4M3 ? r % 0x7F : 107 + r % 40);
        else
            out[i] = (uint8_t)(format == NIB_UNIT_SCALE_UE4M3 ? 0x30 + r % 16 : 125 + r % 5);
        if (set == NIB_GPU_OPERANDS_SPECIAL && w.word[1] % 300 == 0)
            out[i] = (uint8_t)(format == NIB_UNIT_SCALE_UE4M3 ? 0x7F : 0xFF);
        if (set == NIB_GPU_OPERANDS_SPECIAL && w.word[1] % 300 == 1) out[i] = 0;
    }
}

const char *nib_gpu_unit_of(const char *instruction, int major, enum nib_operand *a, enum nib_operand *b) {
    static const struct {
        const char *instruction;
        enum nib_operand a, b;
        const char *hopper, *blackwell, *blackwell_rtx;
    } table[] = {
        {"mma.m16n8k16.bf16.f32", NIB_OPERAND_BF16, NIB_OPERAND_BF16, "hopper-mma-16bit-f32", "blackwell-mma-16bit-f32", "blackwell-rtx-mma-16bit-f32"},
        {"mma.m16n8k16.f16.f32", NIB_OPERAND_FP16, NIB_OPERAND_FP16, "hopper-mma-16bit-f32", "blackwell-mma-16bit-f32", "blackwell-rtx-mma-16bit-f32"},
        {"mma.m16n8k16.f16.f16", NIB_OPERAND_FP16, NIB_OPERAND_FP16, "hopper-mma-fp16-f16", "blackwell-mma-fp16-f16", "blackwell-rtx-mma-fp16-f16"},
        {"mma.m16n8k8.tf32.f32", NIB_OPERAND_TF32, NIB_OPERAND_TF32, "hopper-mma-tf32-f32", "blackwell-mma-tf32-f32", "blackwell-rtx-mma-tf32-f32"},
        {"mma.m16n8k32.e4m3.f32", NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, "hopper-mma-fp8-f32", "blackwell-mma-fp8-f32", "blackwell-rtx-mma-f8f6f4-f32"},
        {"mma.m16n8k32.e5m2.f32", NIB_OPERAND_E5M2, NIB_OPERAND_E5M2, "hopper-mma-fp8-f32", "blackwell-mma-fp8-f32", "blackwell-rtx-mma-f8f6f4-f32"},
        {"mma.m16n8k32.e4m3.f16", NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, "hopper-mma-fp8-f16", "blackwell-mma-fp8-f16", "blackwell-rtx-mma-f8f6f4-f16"},
        {"mma.m16n8k32.e5m2.f16", NIB_OPERAND_E5M2, NIB_OPERAND_E5M2, "hopper-mma-fp8-f16", "blackwell-mma-fp8-f16", "blackwell-rtx-mma-f8f6f4-f16"},
        {"mma.m16n8k32.s8.s32", NIB_OPERAND_S8, NIB_OPERAND_S8, "hopper-mma-int8-s32", "blackwell-rtx-mma-int8-s32", "blackwell-rtx-mma-int8-s32"},
        {"wgmma.m64n8k16.bf16.f32", NIB_OPERAND_BF16, NIB_OPERAND_BF16, "hopper-wgmma-16bit-f32", NULL, NULL},
        {"wgmma.m64n8k16.f16.f32", NIB_OPERAND_FP16, NIB_OPERAND_FP16, "hopper-wgmma-16bit-f32", NULL, NULL},
        {"wgmma.m64n8k16.f16.f16", NIB_OPERAND_FP16, NIB_OPERAND_FP16, "hopper-wgmma-fp16-f16", NULL, NULL},
        {"wgmma.m64n8k8.tf32.f32", NIB_OPERAND_TF32, NIB_OPERAND_TF32, "hopper-wgmma-tf32-f32", NULL, NULL},
        {"wgmma.m64n8k32.e4m3.f32", NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, "hopper-wgmma-fp8-f32", NULL, NULL},
        {"wgmma.m64n8k32.e5m2.f32", NIB_OPERAND_E5M2, NIB_OPERAND_E5M2, "hopper-wgmma-fp8-f32", NULL, NULL},
        {"wgmma.m64n8k32.e4m3-e5m2.f32", NIB_OPERAND_E4M3, NIB_OPERAND_E5M2, "hopper-wgmma-fp8-f32", NULL, NULL},
        {"wgmma.m64n8k32.e4m3.f16", NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, "hopper-wgmma-fp8-f16", NULL, NULL},
        {"wgmma.m64n8k32.e5m2.f16", NIB_OPERAND_E5M2, NIB_OPERAND_E5M2, "hopper-wgmma-fp8-f16", NULL, NULL},
        {"wgmma.m64n8k32.s8.s32", NIB_OPERAND_S8, NIB_OPERAND_S8, "hopper-wgmma-int8-s32", NULL, NULL},
        {"mma.m16n8k64.mxf4nvf4.f32", NIB_OPERAND_E2M1, NIB_OPERAND_E2M1, NULL, NULL, "blackwell-rtx-mma-nvfp4"},
        {"mma.m16n8k64.mxf4.f32", NIB_OPERAND_E2M1, NIB_OPERAND_E2M1, NULL, NULL, "blackwell-rtx-mma-mxfp4"},
        {"mma.m16n8k32.mxf8f6f4.e4m3.f32", NIB_OPERAND_E4M3, NIB_OPERAND_E4M3, NULL, NULL, "blackwell-rtx-mma-mxf8f6f4"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].instruction, instruction) != 0) continue;
        *a = table[i].a;
        *b = table[i].b;
        return major == 9    ? table[i].hopper
               : major == 10 ? table[i].blackwell
               : major == 12 ? table[i].blackwell_rtx
                             : NULL;
    }
    return NULL;
}
