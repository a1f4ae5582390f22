// Quantization behind a rotation on the tensor cores, which takes bf16.
#include "launch.cuh"

template <int ELEMENT, bool STOCHASTIC> static void run(const QuantizeLaunch &l, const void *x) {
    run_lines<__nv_bfloat16, ELEMENT, STOCHASTIC, ROTATION_MMA>(l, static_cast<const __nv_bfloat16 *>(x));
}

void quantize_by_mma(const QuantizeLaunch &l, const void *x) {
    if (l.q.is_e2m1)
        l.q.random_bits != 0 ? run<ELEMENT_E2M1, true>(l, x) : run<ELEMENT_E2M1, false>(l, x);
    else
        l.q.random_bits != 0 ? run<ELEMENT_GRID, true>(l, x) : run<ELEMENT_GRID, false>(l, x);
}
