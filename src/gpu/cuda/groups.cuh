// Which 16 elements a thread holds. A launch covers `outer` lines of `inner` elements along the reduction
// axis; `lanes` neighbouring threads share one group (a block or a rotation longer than 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Shape {
    size_t rows, cols;
    int along_rows;
    unsigned lanes;          // threads that share a group: 1, 2, 4, 8 or 16
    size_t inner, outer;     // along and across the reduction axis
    size_t groups;           // of lanes * 16 elements in one line, the last one partial
};

inline Shape shape_of(size_t rows, size_t cols, int along_rows, unsigned group) {
    Shape s;
    s.rows = rows;
    s.cols = cols;
    s.along_rows = along_rows;
    s.lanes = group / 16;
    s.inner = along_rows ? rows : cols;
    s.outer = along_rows ? cols : rows;
    s.groups = (s.inner + group - 1) / group;
    return s;
}

// Lines down the columns put neighbouring columns on neighbouring threads, so that loads coalesce.
inline size_t threads_x(const Shape &s) { return (s.along_rows ? s.outer : s.groups) * s.lanes; }
inline size_t lines_y(const Shape &s) { return s.along_rows ? s.groups : s.outer; }

struct Place {
    bool any;                // the thread holds at least one element
    size_t line, start;      // which line, and the first element in it
};

__device__ __forceinline__ Place place_of(const Shape &s, size_t x, size_t y) {
    Place p;
    unsigned part = x % s.lanes;
    size_t unit = x / s.lanes;
    p.line = s.along_rows ? unit : y;
    size_t group = s.along_rows ? y : unit;
    p.start = (group * s.lanes + part) * 16;
    p.any = p.line < s.outer && p.start < s.inner;
    return p;
}

__device__ __forceinline__ float as_float(float x) { return x; }
// The hardware's conversions give every NaN a plus sign; here it keeps its own.
__device__ __forceinline__ float as_float(__nv_bfloat16 x) { return __uint_as_float((uint32_t)__bfloat16_as_ushort(x) << 16); }
__device__ __forceinline__ float as_float(__half x) {
    uint32_t magnitude = __float_as_uint(__half2float(x)) & 0x7FFFFFFFu;
    return __uint_as_float(magnitude | ((uint32_t)__half_as_ushort(x) & 0x8000u) << 16);
}

template <typename T> __device__ __forceinline__ size_t offset_of(const Shape &s, const Place &p, unsigned i) {
    return s.along_rows ? (p.start + i) * s.cols + p.line : p.line * s.cols + p.start + i;
}

// Missing elements are zero.
template <typename T>
__device__ __forceinline__ void load16(const Shape &s, const Place &p, const T *__restrict__ x, bool aligned, float (&v)[16]) {
    if (p.any && aligned && !s.along_rows && p.start + 16 <= s.inner) {
        const uint4 *at = reinterpret_cast<const uint4 *>(x + p.line * s.cols + p.start);
        constexpr int WORDS = 16 * sizeof(T) / 16, PER = 16 / sizeof(T);
        uint4 words[WORDS];
#pragma unroll
        for (int w = 0; w < WORDS; w++) words[w] = __ldg(at + w);
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            const T *part = reinterpret_cast<const T *>(&words[w]);
#pragma unroll
            for (int i = 0; i < PER; i++) v[w * PER + i] = as_float(part[i]);
        }
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < 16; i++)
        v[i] = p.any && p.start + i < s.inner ? as_float(x[offset_of<T>(s, p, i)]) : 0.0f;
}
