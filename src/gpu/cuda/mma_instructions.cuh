// The matrix instructions, one struct each. In all of them a row of A and a column of B are 32 bytes, so the
// registers of a lane are the same 32-bit words whatever the type: with g = lane / 4 and t = lane % 4,
// A holds words t and t+4 of rows g and g+8, B words t and t+4 of column g, and the accumulators columns 2t,
// 2t+1 of rows g and g+8 (PTX ISA 9.0, "Matrix fragments for mma.m16n8k16", "... m16n8k32", "... m16n8k8").
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NIB_HAS_WGMMA 1
#else
#define NIB_HAS_WGMMA 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)
#define NIB_HAS_BLOCK_SCALED_MMA 1
#else
#define NIB_HAS_BLOCK_SCALED_MMA 0
#endif

struct Fragment {
    uint32_t a[4], b[2], d[4]; // d: two words only where the accumulator is f16
    uint32_t a_scale, b_scale;
    uint64_t b_descriptor;
};

#define MMA_F32(NAME, TEXT, K, BITS)                                                              \
    struct NAME {                                                                                 \
        enum { k = K, bits = BITS, accumulator = 32, warps = 1, scale_block = 0 };                \
        static __device__ void run(Fragment &f) {                                                 \
            asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"            \
                         : "+f"(reinterpret_cast<float &>(f.d[0])), "+f"(reinterpret_cast<float &>(f.d[1])), \
                           "+f"(reinterpret_cast<float &>(f.d[2])), "+f"(reinterpret_cast<float &>(f.d[3])) \
                         : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1])); \
        }                                                                                         \
    }
#define MMA_S32(NAME, TEXT, K, BITS)                                                              \
    struct NAME {                                                                                 \
        enum { k = K, bits = BITS, accumulator = 32, warps = 1, scale_block = 0 };                \
        static __device__ void run(Fragment &f) {                                                 \
            asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"            \
                         : "+r"(f.d[0]), "+r"(f.d[1]), "+r"(f.d[2]), "+r"(f.d[3])                 \
                         : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1])); \
        }                                                                                         \
    }
#define MMA_F16(NAME, TEXT, K, BITS)                                                              \
    struct NAME {                                                                                 \
        enum { k = K, bits = BITS, accumulator = 16, warps = 1, scale_block = 0 };                \
        static __device__ void run(Fragment &f) {                                                 \
            asm volatile(TEXT " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"                        \
                         : "+r"(f.d[0]), "+r"(f.d[1])                                             \
                         : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1])); \
        }                                                                                         \
    }

MMA_F32(MmaBf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16);
MMA_F32(MmaF16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 16);
MMA_F16(MmaF16Half, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 16);
MMA_F32(MmaTf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32);
MMA_F32(MmaE4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 8);
MMA_F32(MmaE5m2, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 8);
MMA_F16(MmaE4m3Half, "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", 32, 8);
MMA_F16(MmaE5m2Half, "mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e5m2.f16", 32, 8);
MMA_S32(MmaS8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32, 8);

// wgmma: four warps, 64 rows, A in registers, B behind a shared-memory descriptor, eight columns.
#if NIB_HAS_WGMMA
#define WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_WAIT()                                                                              \
    asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory")
#else
#define WGMMA_FENCE()
#define WGMMA_WAIT()
#endif

#if NIB_HAS_WGMMA
#define WGMMA_F32_BODY(TEXT, TAIL)                                                                \
    WGMMA_FENCE();                                                                                \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n" TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p" TAIL "; }" \
                 : "+f"(reinterpret_cast<float &>(f.d[0])), "+f"(reinterpret_cast<float &>(f.d[1])), \
                   "+f"(reinterpret_cast<float &>(f.d[2])), "+f"(reinterpret_cast<float &>(f.d[3])) \
                 : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "l"(f.b_descriptor)        \
                 : "memory");                                                                     \
    WGMMA_WAIT()
#define WGMMA_F16_BODY(TEXT, TAIL)                                                                \
    WGMMA_FENCE();                                                                                \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n" TEXT " {%0,%1}, {%2,%3,%4,%5}, %6, p" TAIL "; }" \
                 : "+r"(f.d[0]), "+r"(f.d[1])                                                     \
                 : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "l"(f.b_descriptor)        \
                 : "memory");                                                                     \
    WGMMA_WAIT()
#define WGMMA_S32_BODY(TEXT, TAIL)                                                                \
    WGMMA_FENCE();                                                                                \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n" TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p" TAIL "; }" \
                 : "+r"(f.d[0]), "+r"(f.d[1]), "+r"(f.d[2]), "+r"(f.d[3])                         \
                 : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "l"(f.b_descriptor)        \
                 : "memory");                                                                     \
    WGMMA_WAIT()
#else
#define WGMMA_F32_BODY(TEXT, TAIL) (void)f
#define WGMMA_F16_BODY(TEXT, TAIL) (void)f
#define WGMMA_S32_BODY(TEXT, TAIL) (void)f
#endif

#define WGMMA(NAME, BODY, TEXT, TAIL, K, BITS, ACC)                                               \
    struct NAME {                                                                                 \
        enum { k = K, bits = BITS, accumulator = ACC, warps = 4, scale_block = 0 };               \
        static __device__ void run(Fragment &f) { BODY(TEXT, TAIL); }                             \
    }

WGMMA(WgmmaBf16, WGMMA_F32_BODY, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", ", 1, 1, 0", 16, 16, 32);
WGMMA(WgmmaF16, WGMMA_F32_BODY, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", ", 1, 1, 0", 16, 16, 32);
WGMMA(WgmmaF16Half, WGMMA_F16_BODY, "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", ", 1, 1, 0", 16, 16, 16);
WGMMA(WgmmaTf32, WGMMA_F32_BODY, "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", ", 1, 1", 8, 32, 32);
WGMMA(WgmmaE4m3, WGMMA_F32_BODY, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", ", 1, 1", 32, 8, 32);
WGMMA(WgmmaE5m2, WGMMA_F32_BODY, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2", ", 1, 1", 32, 8, 32);
WGMMA(WgmmaE4m3E5m2, WGMMA_F32_BODY, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2", ", 1, 1", 32, 8, 32);
WGMMA(WgmmaE4m3Half, WGMMA_F16_BODY, "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3", ", 1, 1", 32, 8, 16);
WGMMA(WgmmaE5m2Half, WGMMA_F16_BODY, "wgmma.mma_async.sync.aligned.m64n8k32.f16.e5m2.e5m2", ", 1, 1", 32, 8, 16);
WGMMA(WgmmaS8, WGMMA_S32_BODY, "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8", "", 32, 8, 32);

// Block-scaled FP4 and FP8 of sm_120: lane pairs 0 and 1 of a quad give the scales of rows g and g+8 of A, lane 0
// those of column g of B (PTX ISA 9.0, "Block scaling for mma.sync").
#if NIB_HAS_BLOCK_SCALED_MMA
#define SCALED_BODY(TEXT)                                                                         \
    asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {%12,%12}, %11, {%12,%12};" \
                 : "+f"(reinterpret_cast<float &>(f.d[0])), "+f"(reinterpret_cast<float &>(f.d[1])), \
                   "+f"(reinterpret_cast<float &>(f.d[2])), "+f"(reinterpret_cast<float &>(f.d[3])) \
                 : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]), "r"(f.a_scale), \
                   "r"(f.b_scale), "h"((uint16_t)0))
#else
#define SCALED_BODY(TEXT) (void)f
#endif
#define MMA_SCALED(NAME, TEXT, K, BITS, BLOCK)                                                    \
    struct NAME {                                                                                 \
        enum { k = K, bits = BITS, accumulator = 32, warps = 1, scale_block = BLOCK };            \
        static __device__ void run(Fragment &f) { SCALED_BODY(TEXT); }                            \
    }

MMA_SCALED(MmaNvfp4, "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3", 64, 4, 16);
MMA_SCALED(MmaMxfp4, "mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0", 64, 4, 32);
MMA_SCALED(MmaMxfp8, "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0", 32, 8, 32);
