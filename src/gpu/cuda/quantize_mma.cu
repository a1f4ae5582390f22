#include "launch.cuh"
#include "quantize_mma.cuh"

template <int ELEMENT, bool STOCHASTIC> static void run(const QuantizeLaunch &l, const __nv_bfloat16 *x) {
    size_t lines = lines_y(l.shape);
    dim3 grid((unsigned)((threads_x(l.shape) + 255) / 256), (unsigned)(lines < 65535 ? lines : 65535));
    quantize_lines_mma<ELEMENT, STOCHASTIC><<<grid, 256>>>(l, x);
}

void quantize_by_mma(const QuantizeLaunch &l, const void *data) {
    const __nv_bfloat16 *x = static_cast<const __nv_bfloat16 *>(data);
    if (l.q.is_e2m1)
        l.q.stochastic ? run<ELEMENT_E2M1, true>(l, x) : run<ELEMENT_E2M1, false>(l, x);
    else
        l.q.stochastic ? run<ELEMENT_GRID, true>(l, x) : run<ELEMENT_GRID, false>(l, x);
}
