#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define T __nv_bfloat16
#define NAME quantize_bf16
#include "quantize_launch.inc"
