#include "launch.cuh"
#include "quantize_tiles.cuh"

using Input = __nv_bfloat16;
#define NIB_QUANTIZE_INPUT quantize_bf16
#include "quantize_launch.inc"
