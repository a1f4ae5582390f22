/* Division and reciprocal as NVIDIA's fast instructions compute them (H100, H200), bit for bit. */
#ifndef NIB_QUANTIZE_APPROX_H
#define NIB_QUANTIZE_APPROX_H

/* rcp.approx.ftz.f32: subnormal x counts as 0, |x| > 2^126 gives 0. */
float nib_rcp_approx_ftz(float x);
/* div.full.f32, what `/` means in Triton: a * rcp(b), both scaled where b is very large or subnormal. */
float nib_div_full(float a, float b);
/* div.approx.ftz.f32, what `/` means in CUDA under --use_fast_math. */
float nib_div_approx_ftz(float a, float b);
/* A subnormal becomes a zero of its sign. */
float nib_flush(float x);

#endif
