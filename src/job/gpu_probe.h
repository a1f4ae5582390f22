/* A kit of inputs that somebody with another device runs, and the comparison of what comes back with the models. */
#ifndef NIB_JOB_GPU_PROBE_H
#define NIB_JOB_GPU_PROBE_H

#include <nibble/table.h>
#include <nibble/unit.h>

extern const unsigned char nib_gpu_probe_probe_cu[], nib_gpu_probe_README_md[];
extern const unsigned long nib_gpu_probe_probe_cu_size, nib_gpu_probe_README_md_size;

/* The products of the kit: name.a, name.b, name.c, name.a-scales, name.b-scales, name.out; two instructions a tile. */
struct nib_gpu_probe_product {
    const char *name, *unit;
    enum nib_operand operand;
    unsigned k, scale_block;     /* of one instruction; elements per scale */
};
enum { NIB_GPU_PROBE_PRODUCTS = 3, NIB_GPU_PROBE_STEPS = 2, NIB_GPU_PROBE_TILES = 192 };
extern const struct nib_gpu_probe_product nib_gpu_probe_products[NIB_GPU_PROBE_PRODUCTS];

/* cublaslt-nvfp4.a and so on: square products without accumulators, block scales in 128x4 tiles, a product per set of
 * operands. */
#define NIB_GPU_PROBE_CUBLASLT "cublaslt-nvfp4"
#define NIB_GPU_PROBE_CUBLASLT_UNIT "blackwell-tcgen05-nvfp4"
enum { NIB_GPU_PROBE_SIDE = 128, NIB_GPU_PROBE_DEPTH = 256, NIB_GPU_PROBE_SCALES_PER_ROW = NIB_GPU_PROBE_DEPTH / 16 };

/* Writes the kit into a folder that is new or empty. A failure leaves no folder behind. */
NIB_CHECK enum nib_status nib_gpu_probe_write(const char *folder, uint64_t seed, struct nib_error *error);
/* Compares the outputs in the folder: a report as of nib_gpu_check_run. What is missing is a row of its own. `device`
 * takes what the folder says of the device, one line. NIB_EIO where no output is there at all. */
NIB_CHECK enum nib_status nib_gpu_probe_verify(const char *folder, struct nib_table **out, char device[160],
                                               struct nib_error *error);

#endif
