#include "launch.cuh"
#include "quantize_tiles.cuh"

using Input = float;
#define NIB_QUANTIZE_INPUT quantize_f32
#include "quantize_launch.inc"
