// D = A B^T through cuBLASLt, which is opened at run time.
#include "cublaslt.cuh"
#include "host.cuh"
#include <cublasLt.h>
#include <cstring>
#include <dlfcn.h>

namespace {

struct Library {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulDescCreate) desc_create;
    decltype(&cublasLtMatmulDescDestroy) desc_destroy;
    decltype(&cublasLtMatmulDescSetAttribute) desc_set;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
};

bool load(Library *l) {
    void *handle = nullptr;
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    for (const char *name : names)
        if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    auto find = [&](auto &slot, const char *name) {
        slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(handle, name));
        return slot != nullptr;
    };
    return find(l->create, "cublasLtCreate") && find(l->destroy, "cublasLtDestroy") && find(l->matmul, "cublasLtMatmul") &&
           find(l->desc_create, "cublasLtMatmulDescCreate") && find(l->desc_destroy, "cublasLtMatmulDescDestroy") &&
           find(l->desc_set, "cublasLtMatmulDescSetAttribute") && find(l->layout_create, "cublasLtMatrixLayoutCreate") &&
           find(l->layout_destroy, "cublasLtMatrixLayoutDestroy") &&
           find(l->preference_create, "cublasLtMatmulPreferenceCreate") &&
           find(l->preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
           find(l->preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
           find(l->heuristic, "cublasLtMatmulAlgoGetHeuristic");
}

struct Product {
    Library lib;
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    ~Product() {
        if (preference != nullptr) lib.preference_destroy(preference);
        if (d != nullptr) lib.layout_destroy(d);
        if (b != nullptr) lib.layout_destroy(b);
        if (a != nullptr) lib.layout_destroy(a);
        if (desc != nullptr) lib.desc_destroy(desc);
        if (handle != nullptr) lib.destroy(handle);
    }
};

int lt_failed(cublasStatus_t status, const char *what, char *error, size_t size) {
    if (status == CUBLAS_STATUS_SUCCESS) return NIB_GPU_OK;
    snprintf(error, size, "cuBLASLt: %s: status %d", what, (int)status);
    return status == CUBLAS_STATUS_ALLOC_FAILED ? NIB_GPU_NO_MEMORY
           : status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH ? NIB_GPU_NO_KERNEL
                                                                                              : NIB_GPU_FAULT;
}

} // namespace

#define TRY_LT(call, what)                                                                        \
    do {                                                                                          \
        int code_ = lt_failed((call), (what), error, size);                                       \
        if (code_ != NIB_GPU_OK) return code_;                                                    \
    } while (0)

// Row-major D (m x n) = A (m x k) B^T (n x k) is column-major D^T (n x m) = (B^T)^T A^T: the library sees B as
// its first operand, transposed, and A as its second.
int cublaslt_product(int fp8, int fast_accumulation, int bf16_output, size_t m, size_t n, size_t k, const void *a, const void *b,
                     void *d, char *error, size_t size) {
    Product p;
    if (!load(&p.lib)) {
        snprintf(error, size, "cuBLASLt was not found on this machine");
        return NIB_GPU_NO_KERNEL;
    }
    cudaDataType_t in = fp8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF, out = bf16_output ? CUDA_R_16BF : CUDA_R_32F;
    size_t element = fp8 ? 1 : 2, result = bf16_output ? 2 : 4, workspace = 32u << 20;
    DeviceBuffer da, db, dd, scratch;
    TRY(da.allocate(m * k * element), "device memory for A");
    TRY(db.allocate(n * k * element), "device memory for B");
    TRY(dd.allocate(m * n * result), "device memory for D");
    TRY(scratch.allocate(workspace), "device memory for the workspace");
    TRY(cudaMemcpy(da.as<void>(), a, m * k * element, cudaMemcpyHostToDevice), "copy of A");
    TRY(cudaMemcpy(db.as<void>(), b, n * k * element, cudaMemcpyHostToDevice), "copy of B");
    TRY_LT(p.lib.create(&p.handle), "create");
    TRY_LT(p.lib.desc_create(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
    cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    TRY_LT(p.lib.desc_set(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed), "description");
    TRY_LT(p.lib.desc_set(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain), "description");
    int8_t fast = (int8_t)(fast_accumulation != 0);
    if (fp8) TRY_LT(p.lib.desc_set(p.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast), "description");
    TRY_LT(p.lib.layout_create(&p.b, in, k, n, (int64_t)k), "layout of B");
    TRY_LT(p.lib.layout_create(&p.a, in, k, m, (int64_t)k), "layout of A");
    TRY_LT(p.lib.layout_create(&p.d, out, n, m, (int64_t)n), "layout of D");
    TRY_LT(p.lib.preference_create(&p.preference), "preference");
    TRY_LT(p.lib.preference_set(p.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace), "preference");
    // No split-K: partial sums would be added in an order that no model fixes.
    uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    TRY_LT(p.lib.preference_set(p.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction, sizeof no_reduction), "preference");
    cublasLtMatmulHeuristicResult_t choice;
    int found = 0;
    TRY_LT(p.lib.heuristic(p.handle, p.desc, p.b, p.a, p.d, p.d, p.preference, 1, &choice, &found), "choice of an algorithm");
    if (found == 0) {
        snprintf(error, size, "cuBLASLt has no algorithm for this product on this device");
        return NIB_GPU_NO_KERNEL;
    }
    float one = 1.0f, zero = 0.0f;
    TRY_LT(p.lib.matmul(p.handle, p.desc, &one, db.as<void>(), p.b, da.as<void>(), p.a, &zero, dd.as<void>(), p.d, dd.as<void>(), p.d,
                        &choice.algo, scratch.as<void>(), workspace, nullptr),
           "product");
    TRY_KERNEL("cuBLASLt product");
    TRY(cudaMemcpy(d, dd.as<void>(), m * n * result, cudaMemcpyDeviceToHost), "copy of D");
    return NIB_GPU_OK;
}
