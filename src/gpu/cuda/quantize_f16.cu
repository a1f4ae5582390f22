#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define T __half
#define NAME quantize_f16
#include "quantize_launch.inc"
