#!/usr/bin/env python3
"""The digests that `nibble selftest` compares with, computed without nibble.

Everything is written again from the specifications, in numpy: binary32 operations one at a time in the order of the
formulas, roundings to a grid by search among its levels in binary64 (which holds every midpoint exactly). Prints
src/cli/selftest.def. usage: oracle.py > src/cli/selftest.def
"""
import hashlib
import sys

import numpy as np

f32 = np.float32
MAX = f32(3.4028234663852886e38)
np.seterr(all="ignore")

# ---- the inputs ------------------------------------------------------------------------------------------------
ROWS, COLS = 48, 88  # tails in both directions for blocks of 16 and of 32
ROW_SHIFTS = {"normal": [0, 1, 2, 3, -1, -2, -3, -4], "wide": [0, 20, -20, 60, -60, 100, -126, -135], "special": [0] * 8}


def split_mix(index):
    z = (index.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def words(tensor):
    """Binary32 bits: a random sign and mantissa; an exponent that falls by a geometric number of steps."""
    index = np.arange(ROWS * COLS)
    z = split_mix(index + 100000 * sorted(ROW_SHIFTS).index(tensor))
    low = (z >> np.uint64(23)) & np.uint64(0xFFFF) | np.uint64(0x10000)
    steps = np.zeros(ROWS * COLS, dtype=np.int64)
    for bit in range(16, -1, -1):
        steps[(low >> np.uint64(bit)) & np.uint64(1) == 1] = bit
    shift = np.array(ROW_SHIFTS[tensor])[(index // COLS) % 8]
    exponent = np.clip(127 + shift - steps, 0, 254)
    bits = (z >> np.uint64(63) << np.uint64(31)) | (exponent.astype(np.uint64) << np.uint64(23)) | (z & np.uint64(0x7FFFFF))
    bits = bits.astype(np.uint32)
    if tensor == "special":
        values = [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x00000000, 0x80000000, 0x00000001]
        for i, value in enumerate(values):
            bits[i * 131 + 17] = value
    else:  # a block of zeros, and single ones of both signs
        bits[32 * 2 : 32 * 3] = 0
        bits[7], bits[8] = 0, 0x80000000
    return bits.reshape(ROWS, COLS)


def tensor_of(name, dtype):
    bits = words(name)
    if dtype == "bf16":
        bits = bits & np.uint32(0xFFFF0000)
        # A NaN whose payload is in the lower half would become an infinity; keep it a NaN.
        bits[(words(name) & 0x7FFFFFFF > 0x7F800000) & (bits & 0x7FFFFFFF == 0x7F800000)] |= np.uint32(0x00400000)
    return bits


# ---- grids and scales ------------------------------------------------------------------------------------------
GRIDS = {  # magnitudes of code 0..7; the sign is bit 3
    "e2m1": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    "e1m2": [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5],
    "e3m0": [0, 0.25, 0.5, 1, 2, 4, 8, 16],
    "e0m3": [0, 1, 2, 3, 4, 5, 6, 7],
}


def round_grid(levels, mode, t):
    """Codes of binary32 numbers t; NaN gives 7."""
    levels = np.array(levels, dtype=np.float64)
    a = np.abs(t.astype(np.float64))
    below = np.clip(np.searchsorted(levels, a, side="right") - 1, 0, 7)
    above = np.clip(below + 1, 0, 7)
    middle = (levels[below] + levels[above]) / 2
    if mode == "rne":
        up = (a > middle) | ((a == middle) & (below % 2 == 1))
    elif mode == "rna":
        up = a >= middle
    elif mode == "rnz":
        up = a > middle
    else:
        up = np.zeros(a.shape, dtype=bool)
    code = np.where((below < 7) & up, above, below)
    code = code | (np.signbit(t) * 8)
    return np.where(np.isnan(t), 7, code).astype(np.uint8)


def minifloat(mbits, bias, count):
    """The values of the codes 0..count-1 of a format whose exponent field stands above mbits bits."""
    values = []
    for code in range(count):
        e, m = code >> mbits, code & ((1 << mbits) - 1)
        values.append(m * 2.0 ** (1 - bias - mbits) if e == 0 else (1 + m / 2**mbits) * 2.0 ** (e - bias))
    return np.array(values)


SCALES = {  # values of the positive finite codes, code of NaN, whether there is a sign bit
    "e4m3": (minifloat(3, 7, 0x7F), 0x7F, True),
    "e5m2": (minifloat(2, 15, 0x7C), 0x7F, True),
    "ue5m3": (minifloat(3, 15, 0xFF), 0xFF, False),
    "e8m0": (2.0 ** np.arange(-127, 128), 0xFF, False),
}


def encode_scale(name, mode, x):
    """Saturating codes of binary32 numbers; formats without a sign bit ignore the sign."""
    values, nan, signed = SCALES[name]
    a = np.abs(x.astype(np.float64))
    last = len(values) - 1
    below = np.clip(np.searchsorted(values, a, side="right") - 1, 0, last)
    above = np.clip(below + 1, 0, last)
    distance_down, distance_up = a - values[below], values[above] - a
    if mode == "nearest":
        up = (distance_up < distance_down) | ((distance_up == distance_down) & (below % 2 == 1))
    elif mode == "up":
        up = distance_down > 0
    else:
        up = np.zeros(a.shape, dtype=bool)
    code = np.where(a >= values[last], last, np.where((a > values[below]) & up, above, below))
    if name == "e8m0":
        code = np.where(a <= values[0], 0, code)
    if signed:
        code = code | (np.signbit(x) * 0x80)
    return np.where(np.isnan(x), nan, code).astype(np.uint32)


# ---- quantizers ------------------------------------------------------------------------------------------------
def block_amax(x, size):
    """Largest magnitude of each block of `size` along the last axis; NaN is skipped; what is missing counts as zero."""
    rows, cols = x.shape
    blocks = -(-cols // size)
    padded = np.zeros((rows, blocks * size), dtype=f32)
    padded[:, :cols] = np.where(np.isnan(x), f32(0), np.abs(x))
    return padded.reshape(rows, blocks, size).max(axis=2)


def spread(per_block, size, cols):
    return np.repeat(per_block, size, axis=1)[:, :cols]


def te_nvfp4(x):
    b = block_amax(x, 16)
    g = b.max()
    s_tensor = min(f32(2688) / g, MAX) if g != 0 else f32(1)
    if s_tensor == 0:
        s_tensor = f32(1)
    before = np.minimum(b * (s_tensor * (f32(1) / f32(6))), MAX)
    codes = encode_scale("e4m3", "nearest", before)
    s = SCALES["e4m3"][0][codes].astype(f32)
    factor = np.minimum(f32(1) / (s * (f32(1) / s_tensor)), MAX)
    t = x * spread(factor, 16, x.shape[1])
    q = round_grid(GRIDS["e2m1"], "rne", t)
    values = level_of(GRIDS["e2m1"], q) * spread((s * g) * (f32(1) / f32(2688)), 16, x.shape[1])
    return q, codes.astype(np.uint8), values


def ocp_mxfp4(x):
    b = block_amax(x, 32)
    _, exponent = np.frexp(b.astype(np.float64))
    code = np.clip(exponent - 1 - 2 + 127, 0, 254)
    code = np.where(b == 0, 0, np.where(np.isinf(b), 254, code)).astype(np.uint8)
    s = (2.0 ** (code.astype(np.float64) - 127)).astype(f32)
    t = x / spread(s, 32, x.shape[1])
    q = round_grid(GRIDS["e2m1"], "rne", t)
    return q, code, level_of(GRIDS["e2m1"], q) * spread(s, 32, x.shape[1])


def fp32_scaled(grid):
    def quantize(x):
        s = np.minimum(block_amax(x, 16) / f32(max(GRIDS[grid])), MAX)  # scale_overflow: saturate
        wide = spread(s, 16, x.shape[1])
        # A scale of zero makes every element a zero of its sign; NaN comes first.
        t = np.where(wide == 0, np.where(np.isnan(x), x, np.copysign(f32(0), x)), x / wide)
        q = round_grid(GRIDS[grid], "rne", t)
        return q, s.astype("<f4").view(np.uint8).reshape(s.shape[0], -1), level_of(GRIDS[grid], q) * wide

    return quantize


def level_of(levels, codes):
    magnitudes = np.array(levels, dtype=f32)[codes & 7]
    return np.where(codes & 8, -magnitudes, magnitudes)


QUANTIZERS = {
    "te-nvfp4": te_nvfp4,
    "ocp-mxfp4": ocp_mxfp4,
    "e1m2-fp32": fp32_scaled("e1m2"),
    "e2m1-fp32": fp32_scaled("e2m1"),
}


def pack(codes):
    rows, cols = codes.shape
    even = np.zeros((rows, cols + cols % 2), dtype=np.uint8)
    even[:, :cols] = codes
    return even[:, 0::2] | even[:, 1::2] << 4


# ---- Hadamard --------------------------------------------------------------------------------------------------
SIGNS = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1], dtype=f32)


def rotate(x):
    y = (x.reshape(-1, 16) * SIGNS).astype(f32)
    for stride in (1, 2, 4, 8):
        z = y.reshape(-1, 16 // (2 * stride), 2, stride)
        y = np.stack([z[:, :, 0] + z[:, :, 1], z[:, :, 0] - z[:, :, 1]], axis=2).reshape(-1, 16)
    return (y * f32(0.25)).reshape(x.shape)


# ---- the list --------------------------------------------------------------------------------------------------
def row(name, *parts):
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in parts)).hexdigest()
    print(f'SELFTEST("{name}", "{digest}")')


def main():
    print("/* Generated by tests/selftest/oracle.py, which computes all of it without nibble: do not edit.")
    print(" * SELFTEST(what, SHA-256 of the bytes) */")
    for quantizer, quantize in QUANTIZERS.items():
        for tensor in ("normal", "wide", "special"):
            for dtype in ("fp32", "bf16"):
                bits = tensor_of(tensor, dtype)
                for axis in ("cols", "rows"):
                    x = np.ascontiguousarray(bits if axis == "cols" else bits.T).view(f32)
                    codes, scales, values = quantize(x)
                    parts = [codes if axis == "cols" else codes.T, pack(codes), scales]
                    if tensor != "special":  # the bits of a NaN result are the processor's own
                        parts.append((values if axis == "cols" else values.T).astype("<f4"))
                    row(f"{quantizer} {axis} {tensor} {dtype}", *parts)
    every = (np.arange(65536, dtype=np.uint32) << np.uint32(16)).view(f32)
    # Zeros, subnormals, infinities, and the numbers of 32 binades around 1.
    exponents = np.arange(65536) >> 7 & 0xFF
    numbers = every[~np.isnan(every) & ((exponents == 0) | (exponents == 255) | (exponents >= 112) & (exponents < 144))]
    for grid, levels in GRIDS.items():
        for mode in ("rne", "rna", "rnz", "rtz"):
            row(f"{grid} {mode}", round_grid(levels, mode, numbers))
    for scale in SCALES:
        for mode in ("nearest", "up", "down"):
            row(f"{scale} {mode}", encode_scale(scale, mode, every).astype(np.uint8))
    smooth = tensor_of("normal", "fp32").view(f32).reshape(-1, 16)
    row("rht16", rotate(smooth).astype("<f4"))


if __name__ == "__main__":
    sys.exit(main())
