// Runs FP4 conversions and FP4 matrix instructions on the inputs in this folder and writes what came out beside them.
// Compile and run as README.md says. Nothing here emulates: what the device cannot do is left out.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <string>
#include <type_traits>
#include <vector>

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM121_ALL)
#define HAS_CVT_RN 1
#else
#define HAS_CVT_RN 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
#define HAS_CVT_RS 1
#else
#define HAS_CVT_RS 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)
#define HAS_MMA 1
#else
#define HAS_MMA 0
#endif

__global__ void capabilities(int *out) {
    out[0] = HAS_CVT_RN;
    out[1] = HAS_CVT_RS;
    out[2] = HAS_MMA;
}

// Pairs of neighbours, the first in the low half of the byte.
__global__ void convert_nearest(const float *x, uint8_t *out, size_t pairs) {
#if HAS_CVT_RN
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    uint32_t byte;
    asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %2, %1; cvt.u32.u8 %0, t; }" : "=r"(byte) : "f"(x[2 * i]), "f"(x[2 * i + 1]));
    out[i] = (uint8_t)byte;
#endif
}

// Fours of neighbours as the instruction lists its sources {a, b, e, f} = x[3], x[2], x[1], x[0], so that x[0] comes out lowest.
__global__ void convert_stochastic(const float *x, const uint32_t *rbits, uint16_t *out, size_t fours) {
#if HAS_CVT_RS
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= fours) return;
    uint16_t codes;
    asm("cvt.rs.satfinite.e2m1x4.f32 %0, {%1, %2, %3, %4}, %5;"
        : "=h"(codes)
        : "f"(x[4 * i + 3]), "f"(x[4 * i + 2]), "f"(x[4 * i + 1]), "f"(x[4 * i]), "r"(rbits[i]));
    out[i] = codes;
#endif
}

struct Tiles {
    const uint32_t *a, *b;
    const float *c;
    const uint8_t *a_scales, *b_scales;
    float *d;
    unsigned steps;
};

// One tile of 16 x 8 a warp; a row of A and a column of B are 32 bytes an instruction. Lane l: g = l / 4, t = l % 4; A words t and
// t + 4 of rows g and g + 8, B words t and t + 4 of column g, C and D columns 2t and 2t + 1 of rows g and g + 8. Scales of row
// g + 8 * (t mod 2) of A and of column g of B.
template <int KIND> __global__ void multiply(Tiles o) {
#if HAS_MMA
    constexpr unsigned PER = KIND == 0 ? 4 : KIND == 1 ? 2 : 1;
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4, words = 8 * o.steps;
    size_t tile = blockIdx.x;
    const uint32_t *a = o.a + tile * 16 * words, *b = o.b + tile * 8 * words;
    const float *c = o.c + tile * 128;
    float d[4];
    for (unsigned i = 0; i < 4; i++) d[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    for (unsigned step = 0; step < o.steps; step++) {
        uint32_t fa[4], fb[2], sa = 0, sb = 0;
        for (unsigned i = 0; i < 4; i++) fa[i] = a[(g + i % 2 * 8) * words + 8 * step + t + i / 2 * 4];
        for (unsigned i = 0; i < 2; i++) fb[i] = b[g * words + 8 * step + t + i * 4];
        for (unsigned i = 0; i < PER; i++) {
            sa |= (uint32_t)o.a_scales[(tile * 16 + g + t % 2 * 8) * PER * o.steps + step * PER + i] << (8 * i);
            sb |= (uint32_t)o.b_scales[(tile * 8 + g) * PER * o.steps + step * PER + i] << (8 * i);
        }
#define MULTIPLY(TEXT)                                                                                                             \
    asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {%12,%12}, %11, {%12,%12};"                  \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                                  \
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]), "r"(sa), "r"(sb), "h"((uint16_t)0))
        if constexpr (KIND == 0)
            MULTIPLY("mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3");
        else if constexpr (KIND == 1)
            MULTIPLY("mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0");
        else
            MULTIPLY("mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0");
    }
    for (unsigned i = 0; i < 4; i++) o.d[tile * 128 + (g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
#endif
}

static void must(cudaError_t code, const char *what) {
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}

static std::string folder;

static std::vector<uint8_t> read_file(const char *name) {
    FILE *file = fopen((folder + "/" + name).c_str(), "rb");
    if (file == nullptr) {
        fprintf(stderr, "cannot read %s/%s\n", folder.c_str(), name);
        exit(1);
    }
    std::vector<uint8_t> data;
    uint8_t buffer[65536];
    size_t got;
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0) data.insert(data.end(), buffer, buffer + got);
    fclose(file);
    return data;
}

static void write_file(const char *name, const void *data, size_t size) {
    FILE *file = fopen((folder + "/" + name).c_str(), "wb");
    if (file == nullptr || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        fprintf(stderr, "cannot write %s/%s\n", folder.c_str(), name);
        exit(1);
    }
    printf("wrote %s, %zu bytes\n", name, size);
}

static uint8_t *to_device(const std::vector<uint8_t> &data) {
    uint8_t *out;
    must(cudaMalloc(&out, data.size()), "device memory");
    must(cudaMemcpy(out, data.data(), data.size(), cudaMemcpyHostToDevice), "copy");
    return out;
}

static void bring_back(const char *name, const uint8_t *device, size_t size) {
    must(cudaGetLastError(), name);
    must(cudaDeviceSynchronize(), name);
    std::vector<uint8_t> data(size);
    must(cudaMemcpy(data.data(), device, size, cudaMemcpyDeviceToHost), "copy");
    write_file(name, data.data(), size);
}

template <int KIND> static void run_products(const char *name) {
    std::string n = name;
    std::vector<uint8_t> c = read_file((n + ".c").c_str());
    Tiles o;
    o.a = (const uint32_t *)to_device(read_file((n + ".a").c_str()));
    o.b = (const uint32_t *)to_device(read_file((n + ".b").c_str()));
    o.a_scales = to_device(read_file((n + ".a-scales").c_str()));
    o.b_scales = to_device(read_file((n + ".b-scales").c_str()));
    o.c = (const float *)to_device(c);
    o.d = (float *)to_device(c);
    o.steps = 2;
    multiply<KIND><<<(unsigned)(c.size() / 512), 32>>>(o);
    bring_back((n + ".out").c_str(), (const uint8_t *)o.d, c.size());
}

// cuBLASLt is opened at run time: a device without the product needs no library.
struct CublasLt {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtMatmulDescCreate) description;
    decltype(&cublasLtMatmulDescSetAttribute) describe;
    decltype(&cublasLtMatrixLayoutCreate) layout;
    decltype(&cublasLtMatmulPreferenceCreate) preference;
    decltype(&cublasLtMatmulPreferenceSetAttribute) prefer;
    decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
    decltype(&cublasLtMatmul) multiply;
};

static bool open_cublaslt(CublasLt *lt) {
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    auto find = [&](auto &slot, const char *name) {
        slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
        return slot != nullptr;
    };
    return find(lt->create, "cublasLtCreate") && find(lt->description, "cublasLtMatmulDescCreate") &&
           find(lt->describe, "cublasLtMatmulDescSetAttribute") && find(lt->layout, "cublasLtMatrixLayoutCreate") &&
           find(lt->preference, "cublasLtMatmulPreferenceCreate") && find(lt->prefer, "cublasLtMatmulPreferenceSetAttribute") &&
           find(lt->choose, "cublasLtMatmulAlgoGetHeuristic") && find(lt->multiply, "cublasLtMatmul");
}

// 128 x 128 x 256 products, one after the other: D = A B^T in rows is D^T = B A^T in columns, so that the library's first operand
// is B. Scales lie in tiles of 128 x 4 already. No split of K: partial sums would be added in an order that no model fixes.
static void run_cublaslt() {
    const size_t side = 128, depth = 256, codes = side * depth / 2, scales = side * depth / 16, outputs = side * side * sizeof(float);
    const char *what = "open libcublasLt.so.13";
    CublasLt lt;
    bool good = open_cublaslt(&lt);
    auto ok = [&](cublasStatus_t status, const char *step) {
        if (status != CUBLAS_STATUS_SUCCESS) good = false, what = step, printf("cuBLASLt: %s: status %d\n", step, (int)status);
        return good;
    };
    std::vector<uint8_t> a = read_file("cublaslt-nvfp4.a"), b = read_file("cublaslt-nvfp4.b");
    uint8_t *da = to_device(a), *db = to_device(b);
    uint8_t *sa = to_device(read_file("cublaslt-nvfp4.a-scales")), *sb = to_device(read_file("cublaslt-nvfp4.b-scales"));
    size_t sets = a.size() / codes, workspace = (size_t)32 << 20;
    uint8_t *d, *scratch;
    must(cudaMalloc(&d, sets * outputs), "device memory");
    must(cudaMalloc(&scratch, workspace), "device memory");
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t operand, result;
    cublasLtMatmulPreference_t preference;
    cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    good = good && ok(lt.create(&handle), "create") && ok(lt.description(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description") &&
           ok(lt.describe(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed), "transposition") &&
           ok(lt.describe(product, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain), "transposition") &&
           ok(lt.describe(product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode), "scale mode") &&
           ok(lt.describe(product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode), "scale mode") &&
           ok(lt.layout(&operand, CUDA_R_4F_E2M1, depth, side, (int64_t)depth), "layout of the operands") &&
           ok(lt.layout(&result, CUDA_R_32F, side, side, (int64_t)side), "layout of the result") &&
           ok(lt.preference(&preference), "preference") &&
           ok(lt.prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace), "workspace") &&
           ok(lt.prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction, sizeof no_reduction), "no reduction");
    for (size_t set = 0; set < sets && good; set++) {
        const void *first_scales = sb + set * scales, *second_scales = sa + set * scales;
        const float one = 1, zero = 0;
        float *out = (float *)(d + set * outputs);
        cublasLtMatmulHeuristicResult_t choice;
        int found = 0;
        good = ok(lt.describe(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &first_scales, sizeof first_scales), "scales") &&
               ok(lt.describe(product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &second_scales, sizeof second_scales), "scales") &&
               ok(lt.choose(handle, product, operand, operand, result, result, preference, 1, &choice, &found), "algorithm") &&
               ok(found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED, "algorithm") &&
               ok(lt.multiply(handle, product, &one, db + set * codes, operand, da + set * codes, operand, &zero, out, result, out, result,
                              &choice.algo, scratch, workspace, nullptr),
                  "product");
    }
    if (good)
        bring_back("cublaslt-nvfp4.out", d, sets * outputs);
    else
        printf("left out: the NVFP4 product of cuBLASLt (failed at: %s)\n", what);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : ".";
    cudaDeviceProp p;
    int *flags, has[3];
    must(cudaGetDeviceProperties(&p, 0), "no CUDA device");
    must(cudaMalloc(&flags, sizeof has), "device memory");
    capabilities<<<1, 1>>>(flags);
    must(cudaGetLastError(), "this program was compiled for another device");
    must(cudaMemcpy(has, flags, sizeof has, cudaMemcpyDeviceToHost), "this program was compiled for another device");
    char text[512];
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    snprintf(text, sizeof text, "%s\ncompute capability %d.%d\ndriver %d\nruntime %d\n", p.name, p.major, p.minor, driver, runtime);
    write_file("device.txt", text, strlen(text));
    printf("%s", text);
    if (has[0]) {
        std::vector<uint8_t> x = read_file("e2m1.x");
        size_t pairs = x.size() / 8;
        uint8_t *out;
        must(cudaMalloc(&out, pairs), "device memory");
        convert_nearest<<<(unsigned)((pairs + 255) / 256), 256>>>((const float *)to_device(x), out, pairs);
        bring_back("e2m1.out", out, pairs);
    } else {
        printf("left out: cvt.rn.satfinite.e2m1x2 (needs sm_100a, sm_103a, sm_120a or sm_121a)\n");
    }
    if (has[1]) {
        std::vector<uint8_t> x = read_file("sr.x");
        size_t fours = x.size() / 16;
        uint8_t *out;
        must(cudaMalloc(&out, 2 * fours), "device memory");
        convert_stochastic<<<(unsigned)((fours + 255) / 256), 256>>>((const float *)to_device(x), (const uint32_t *)to_device(read_file("sr.rbits")),
                                                                      (uint16_t *)out, fours);
        bring_back("sr.out", out, 2 * fours);
    } else {
        printf("left out: cvt.rs.satfinite.e2m1x4 (needs sm_100a or sm_103a)\n");
    }
    if (has[2]) {
        run_products<0>("nvfp4");
        run_products<1>("mxfp4");
        run_products<2>("mxfp8");
    } else {
        printf("left out: block-scaled mma.sync (needs sm_120a or sm_121a)\n");
    }
    if (p.major == 10)
        run_cublaslt();
    else
        printf("left out: the NVFP4 product of cuBLASLt on tcgen05 (needs compute capability 10.0 or 10.3)\n");
    return 0;
}
