/* A whole product from the tiles of one matrix instruction. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "job/gpu_products.h"
#include "job/gpu_stack.h"

/* The instruction with bf16 operands that computes as `unit` here. */
static enum nib_status find(const struct nib_gpu *gpu, const struct nib_unit *unit, struct nib_gpu_mma *out,
                            bool *found, struct nib_error *error) {
    struct nib_gpu_device device;
    struct nib_gpu_mma mma;
    char message[256] = "";
    enum nib_status status = nib_gpu_status(gpu->plugin->device(&device, message, sizeof message), message, error);
    *found = false;
    for (unsigned i = 0; status == NIB_OK && !*found && gpu->plugin->mma_list(i, &mma) == NIB_GPU_OK; i++) {
        enum nib_operand a, b;
        const char *name = nib_gpu_unit_of(mma.name, device.major, &a, &b);
        if (!mma.runs_here || name == NULL || strcmp(name, unit->name) != 0) continue;
        if (a != NIB_OPERAND_BF16 || b != NIB_OPERAND_BF16 || mma.accumulator_bits != 32) continue;
        *out = mma;
        *found = true;
    }
    return status;
}

/* `count` lines from the first, padded with zeros to `lines` lines of `padded` codes. */
static void copy_lines(const uint16_t *from, size_t first, size_t total, size_t k, size_t lines, size_t padded,
                       uint16_t *to) {
    for (size_t i = 0; i < lines; i++) {
        size_t have = first + i < total ? k : 0;
        memcpy(to + i * padded, from + (first + i) * k, have * sizeof *to);
        memset(to + i * padded + have, 0, (padded - have) * sizeof *to);
    }
}

enum nib_status nib_gpu_stack_multiply(const struct nib_gpu *gpu, const struct nib_unit *unit, size_t m, size_t n,
                                       size_t k, const uint16_t *a, const uint16_t *b, float *out, char instruction[64],
                                       struct nib_error *error) {
    struct nib_gpu_mma mma;
    bool found;
    enum nib_status status = find(gpu, unit, &mma, &found, error);
    if (status != NIB_OK) return status;
    if (!found) {
        instruction[0] = '\0';
        return NIB_OK;
    }
    const size_t tiles = (n + mma.n - 1) / mma.n, steps = (k + mma.k - 1) / mma.k, padded = steps * mma.k;
    const size_t of_a = mma.m * padded, of_b = mma.n * padded, of_d = (size_t)mma.m * mma.n;
    char message[256] = "";
    uint16_t *left = nib_alloc_raw(tiles * of_a, sizeof *left, "tiles of A", error);
    uint16_t *right = nib_alloc_raw(tiles * of_b, sizeof *right, "tiles of B", error);
    float *start = nib_alloc(tiles * of_d, sizeof *start, "tiles of C", error),
          *d = nib_alloc_raw(tiles * of_d, sizeof *d, "tiles of D", error);
    if (left == NULL || right == NULL || start == NULL || d == NULL) status = NIB_ENOMEM;
    for (size_t j = 0; status == NIB_OK && j < tiles; j++)
        copy_lines(b, j * mma.n, n, k, mma.n, padded, right + j * of_b);
    /* One row of tiles a call; all of them have the same A. */
    for (size_t row = 0; status == NIB_OK && row < m; row += mma.m) {
        copy_lines(a, row, m, k, mma.m, padded, left);
        for (size_t j = 1; j < tiles; j++) memcpy(left + j * of_a, left, of_a * sizeof *left);
        status = nib_gpu_status(gpu->plugin->mma(mma.name, tiles, (unsigned)steps, left, right, start, NULL, NULL, d,
                                                 message, sizeof message),
                                message, error);
        for (size_t i = 0; status == NIB_OK && i < mma.m && row + i < m; i++)
            for (size_t col = 0; col < n; col++)
                out[(row + i) * n + col] = d[col / mma.n * of_d + i * mma.n + col % mma.n];
    }
    free(left);
    free(right);
    free(start);
    free(d);
    if (status == NIB_OK) memcpy(instruction, mma.name, sizeof mma.name);
    return status;
}
