#include "launch.cuh"
#include "quantize_tiles.cuh"

using Input = __half;
#define NIB_QUANTIZE_INPUT quantize_f16
#include "quantize_launch.inc"
