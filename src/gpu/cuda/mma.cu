// Matrix instructions on tiles of the caller's operands.
#include "mma.cuh"
#include "host.cuh"
#include "mma_instructions.cuh"
#include <cstring>

struct Operands {
    const uint32_t *a, *b;
    const void *c;
    const uint8_t *a_scales, *b_scales;
    void *d;
    size_t count;
    unsigned k_steps;
};

// Up to four scales of one row at one step, in the low bytes of a word.
__device__ uint32_t scales_of(const uint8_t *scales, size_t row, unsigned per_step, unsigned k_steps, unsigned step) {
    uint32_t word = 0;
    for (unsigned i = 0; i < per_step; i++) word |= (uint32_t)scales[row * per_step * k_steps + step * per_step + i] << (8 * i);
    return word;
}

// One tile a thread block: 16 rows a warp, 8 columns.
template <typename I> __global__ void mma_tiles(Operands o) {
    __shared__ __align__(128) uint32_t shared_b[64];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = warp * 16 + g;
    constexpr unsigned ROWS = I::warps * 16;
    for (size_t tile = blockIdx.x; tile < o.count; tile += gridDim.x) {
        size_t words = 8 * (size_t)o.k_steps;
        const uint32_t *a = o.a + tile * ROWS * words, *b = o.b + tile * 8 * words;
        Fragment f;
        memset(&f, 0, sizeof f);
        if (I::accumulator == 32) {
            const uint32_t *c = static_cast<const uint32_t *>(o.c) + tile * ROWS * 8;
            for (unsigned i = 0; i < 4; i++) f.d[i] = c[(row + i / 2 * 8) * 8 + 2 * t + i % 2];
        } else {
            const uint32_t *c = static_cast<const uint32_t *>(o.c) + tile * ROWS * 4; // two halves a word
            for (unsigned i = 0; i < 2; i++) f.d[i] = c[(row + i * 8) * 4 + t];
        }
        for (unsigned step = 0; step < o.k_steps; step++) {
            for (unsigned i = 0; i < 4; i++) f.a[i] = a[(row + i % 2 * 8) * words + 8 * step + t + i / 2 * 4];
            for (unsigned i = 0; i < 2; i++) f.b[i] = b[g * words + 8 * step + t + i * 4];
            if (I::warps == 4) {
                // Core matrices of 8 rows x 16 bytes, 128 bytes apart along k, no swizzle.
                __syncthreads();
                if (threadIdx.x < 64) {
                    unsigned n = threadIdx.x / 8, w = threadIdx.x % 8;
                    shared_b[w / 4 * 32 + n * 4 + w % 4] = b[n * words + 8 * step + w];
                }
#if NIB_HAS_WGMMA
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
                __syncthreads();
                uint64_t address = (uint64_t)__cvta_generic_to_shared(shared_b);
                f.b_descriptor = (address & 0x3FFFF) >> 4 | (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
            }
            if (I::scale_block != 0) {
                constexpr unsigned PER = I::scale_block == 0 ? 1 : I::k / (I::scale_block == 0 ? 1 : I::scale_block);
                f.a_scale = scales_of(o.a_scales, tile * ROWS + row + t % 2 * 8, PER, o.k_steps, step);
                f.b_scale = scales_of(o.b_scales, tile * 8 + g, PER, o.k_steps, step);
            }
            I::run(f);
        }
        if (I::accumulator == 32) {
            uint32_t *d = static_cast<uint32_t *>(o.d) + tile * ROWS * 8;
            for (unsigned i = 0; i < 4; i++) d[(row + i / 2 * 8) * 8 + 2 * t + i % 2] = f.d[i];
        } else {
            uint32_t *d = static_cast<uint32_t *>(o.d) + tile * ROWS * 4;
            for (unsigned i = 0; i < 2; i++) d[(row + i * 8) * 4 + t] = f.d[i];
        }
    }
}

namespace {

enum Needs { ANY, SM90A, SM120A };

struct Instruction {
    const char *name;
    Needs needs;
    unsigned m, k, bits, accumulator, scale_block;
    void (*kernel)(Operands);
};

#define ROW(NAME, NEEDS, TYPE)                                                                    \
    {NAME, NEEDS, TYPE::warps * 16u, TYPE::k, TYPE::bits, TYPE::accumulator, TYPE::scale_block, mma_tiles<TYPE>}
const Instruction instructions[] = {
    ROW("mma.m16n8k16.bf16.f32", ANY, MmaBf16),
    ROW("mma.m16n8k16.f16.f32", ANY, MmaF16),
    ROW("mma.m16n8k16.f16.f16", ANY, MmaF16Half),
    ROW("mma.m16n8k8.tf32.f32", ANY, MmaTf32),
    ROW("mma.m16n8k32.e4m3.f32", ANY, MmaE4m3),
    ROW("mma.m16n8k32.e5m2.f32", ANY, MmaE5m2),
    ROW("mma.m16n8k32.e4m3.f16", ANY, MmaE4m3Half),
    ROW("mma.m16n8k32.e5m2.f16", ANY, MmaE5m2Half),
    ROW("mma.m16n8k32.s8.s32", ANY, MmaS8),
    ROW("wgmma.m64n8k16.bf16.f32", SM90A, WgmmaBf16),
    ROW("wgmma.m64n8k16.f16.f32", SM90A, WgmmaF16),
    ROW("wgmma.m64n8k16.f16.f16", SM90A, WgmmaF16Half),
    ROW("wgmma.m64n8k8.tf32.f32", SM90A, WgmmaTf32),
    ROW("wgmma.m64n8k32.e4m3.f32", SM90A, WgmmaE4m3),
    ROW("wgmma.m64n8k32.e5m2.f32", SM90A, WgmmaE5m2),
    ROW("wgmma.m64n8k32.e4m3-e5m2.f32", SM90A, WgmmaE4m3E5m2),
    ROW("wgmma.m64n8k32.e4m3.f16", SM90A, WgmmaE4m3Half),
    ROW("wgmma.m64n8k32.e5m2.f16", SM90A, WgmmaE5m2Half),
    ROW("wgmma.m64n8k32.s8.s32", SM90A, WgmmaS8),
    ROW("mma.m16n8k64.mxf4nvf4.f32", SM120A, MmaNvfp4),
    ROW("mma.m16n8k64.mxf4.f32", SM120A, MmaMxfp4),
    ROW("mma.m16n8k32.mxf8f6f4.e4m3.f32", SM120A, MmaMxfp8),
};

const char *why_not(const Instruction &instruction, int major, int minor) {
    if (instruction.needs == SM90A && !(major == 9 && minor == 0)) return "wgmma exists on compute capability 9.0 only";
    if (instruction.needs == SM120A && major != 12) return "block-scaled mma.sync exists on compute capability 12.x only";
    return nullptr;
}

} // namespace

int mma_list(unsigned i, struct nib_gpu_mma *out) {
    if (i >= sizeof instructions / sizeof *instructions) return NIB_GPU_BAD_ARGUMENT;
    const Instruction &instruction = instructions[i];
    struct nib_gpu_mma m;
    memset(&m, 0, sizeof m);
    snprintf(m.name, sizeof m.name, "%s", instruction.name);
    m.m = instruction.m;
    m.n = 8;
    m.k = instruction.k;
    m.operand_bits = instruction.bits;
    m.accumulator_bits = instruction.accumulator;
    m.scale_block = instruction.scale_block;
    int index = 0, major = 0, minor = 0;
    const char *reason = "no device is open";
    if (cudaGetDevice(&index) == cudaSuccess && cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) == cudaSuccess)
        reason = why_not(instruction, major, minor);
    m.runs_here = reason == nullptr;
    snprintf(m.why_not, sizeof m.why_not, "%s", reason == nullptr ? "" : reason);
    *out = m;
    return NIB_GPU_OK;
}

int mma_run(const char *name, size_t count, unsigned k_steps, const void *a, const void *b, const void *c, const uint8_t *a_scales,
            const uint8_t *b_scales, void *d, char *error, size_t size) {
    const Instruction *found = nullptr;
    struct nib_gpu_mma description;
    for (unsigned i = 0; i < sizeof instructions / sizeof *instructions; i++)
        if (strcmp(instructions[i].name, name) == 0) {
            found = &instructions[i];
            mma_list(i, &description);
        }
    if (found == nullptr) return refuse(error, size, "no such matrix instruction");
    if (!description.runs_here) {
        snprintf(error, size, "%s: %s", name, description.why_not);
        return NIB_GPU_NO_KERNEL;
    }
    if (found->scale_block != 0 && (a_scales == nullptr || b_scales == nullptr)) return refuse(error, size, "this instruction needs scales");
    size_t row = 32 * (size_t)k_steps, a_bytes = count * found->m * row, b_bytes = count * 8 * row;
    size_t c_bytes = count * found->m * 8 * found->accumulator / 8;
    size_t per_row = found->scale_block == 0 ? 0 : (size_t)k_steps * found->k / found->scale_block;
    DeviceBuffer da, db, dc, dd, sa, sb;
    TRY(da.allocate(a_bytes), "device memory for A");
    TRY(db.allocate(b_bytes), "device memory for B");
    TRY(dc.allocate(c_bytes), "device memory for C");
    TRY(dd.allocate(c_bytes), "device memory for D");
    TRY(cudaMemcpy(da.as<void>(), a, a_bytes, cudaMemcpyHostToDevice), "copy of A");
    TRY(cudaMemcpy(db.as<void>(), b, b_bytes, cudaMemcpyHostToDevice), "copy of B");
    TRY(cudaMemcpy(dc.as<void>(), c, c_bytes, cudaMemcpyHostToDevice), "copy of C");
    TRY(cudaMemset(dd.as<void>(), 0xCA, c_bytes), "device memory for D");
    if (per_row != 0) {
        TRY(sa.allocate(count * found->m * per_row), "device memory for scales");
        TRY(sb.allocate(count * 8 * per_row), "device memory for scales");
        TRY(cudaMemcpy(sa.as<void>(), a_scales, count * found->m * per_row, cudaMemcpyHostToDevice), "copy of scales");
        TRY(cudaMemcpy(sb.as<void>(), b_scales, count * 8 * per_row, cudaMemcpyHostToDevice), "copy of scales");
    }
    Operands o = {da.as<uint32_t>(), db.as<uint32_t>(), dc.as<void>(), sa.as<uint8_t>(), sb.as<uint8_t>(), dd.as<void>(), count, k_steps};
    found->kernel<<<(unsigned)(count < 65536 ? count : 65536), found->m / 16 * 32>>>(o);
    TRY_KERNEL(name);
    TRY(cudaMemcpy(d, dd.as<void>(), c_bytes, cudaMemcpyDeviceToHost), "copy of D");
    return NIB_GPU_OK;
}
