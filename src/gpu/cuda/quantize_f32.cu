#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define T float
#define NAME quantize_f32
#include "quantize_launch.inc"
