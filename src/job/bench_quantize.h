/* How fast a quantizer is, beside what memory allows. */
#ifndef NIB_JOB_BENCH_QUANTIZE_H
#define NIB_JOB_BENCH_QUANTIZE_H

#include <nibble/quantize.h>

struct nib_bench_request {
    const struct nib_quantizer *quantizer;
    const struct nib_rotation *rotation; /* or NULL */
    enum nib_dtype dtype;
    size_t rows, cols;
    int threads;
    const char *isa; /* as in struct nib_quantize_options */
    unsigned want;   /* enum nib_want: what is written */
    uint64_t seed;
    double seconds; /* at least this long for each figure */
    const struct nib_quantizer *yardstick; /* or NULL: another quantizer, timed in turn with this one */
};

/* Each time is the median over runs, in seconds; `spread` is (third quartile - first quartile) / median. */
struct nib_bench_time {
    double median, best, spread;
    size_t runs;
};
struct nib_bench_result {
    size_t elements;
    double bytes_given, bytes_total; /* moved with the tensor amax given, and with the pass that computes it */
    struct nib_bench_time given, total;
    struct nib_bench_time memory_given, memory_total; /* a kernel that reads and writes the same bytes */
    bool has_tensor_scale;
    double ratio;    /* to the speed of the yardstick end to end, best runs of both; NaN without one */
    const char *isa; /* the one that ran */
};

NIB_CHECK enum nib_status nib_bench_quantize(const struct nib_bench_request *request, struct nib_bench_result *out,
                                             struct nib_error *error);

#endif
