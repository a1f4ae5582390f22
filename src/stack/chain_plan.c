#include "stack/chain_plan.h"

#include "base/error.h"
#include <string.h>

size_t nib_chain_gemms(const struct nib_chain *c) { return c->activation == NIB_CHAIN_SWIGLU ? NIB_CHAIN_GEMMS : 1; }

static const char *gemm_name(const struct nib_chain *c, size_t gemm) {
    static const char *const names[] = {"gate", "up", "down"};
    return c->activation == NIB_CHAIN_SWIGLU ? names[gemm] : "linear";
}

struct nib_chain_shape nib_chain_shape_of(const struct nib_chain *c, size_t gemm) {
    bool gated = c->activation == NIB_CHAIN_SWIGLU;
    return (struct nib_chain_shape){c->rows, gated && gemm == NIB_CHAIN_DOWN ? c->inner : c->width,
                                    gated && gemm != NIB_CHAIN_DOWN ? c->inner : c->width};
}

static size_t passes(const struct nib_chain *c) { return c->backward ? NIB_PASSES : 1; }

size_t nib_chain_records(const struct nib_chain *chain) {
    return (size_t)chain->depth * passes(chain) * nib_chain_gemms(chain);
}

struct nib_chain_record *nib_chain_record_at(const struct nib_chain *c, struct nib_chain_record *records, size_t layer,
                                             enum nib_pass pass, size_t gemm) {
    return &records[(layer * passes(c) + pass) * nib_chain_gemms(c) + gemm];
}

void nib_chain_name_records(const struct nib_chain *c, struct nib_chain_record *records) {
    for (unsigned layer = 0; layer < c->depth; layer++)
        for (unsigned pass = 0; pass < passes(c); pass++)
            for (size_t g = 0; g < nib_chain_gemms(c); g++) {
                struct nib_chain_record *r = nib_chain_record_at(c, records, layer, (enum nib_pass)pass, g);
                *r =
                    (struct nib_chain_record){.depth = layer + 1, .pass = (enum nib_pass)pass, .gemm = gemm_name(c, g)};
            }
}

static enum nib_status check_rotations(const struct nib_chain *c, struct nib_error *error) {
    for (unsigned pass = 0; pass < passes(c); pass++) {
        const struct nib_rotation *a = c->operand[2 * pass].rotation, *b = c->operand[2 * pass + 1].rotation;
        unsigned size_a = a == NULL ? 1 : nib_rotation_size(a), size_b = b == NULL ? 1 : nib_rotation_size(b);
        if ((size_a > 1 || size_b > 1) &&
            (size_a != size_b || strcmp(nib_rotation_sha256(a), nib_rotation_sha256(b)) != 0))
            return nib_fail(error, NIB_EINVAL,
                            "%s: its operands are rotated differently, and the rotations do not cancel",
                            nib_pass_name((enum nib_pass)pass));
        for (size_t gemm = 0; size_a > 1 && gemm < nib_chain_gemms(c); gemm++) {
            struct nib_chain_shape s = nib_chain_shape_of(c, gemm);
            size_t extent = pass == NIB_PASS_FPROP ? s.in : pass == NIB_PASS_DGRAD ? s.out : s.tokens;
            if (extent % size_a != 0)
                return nib_fail(
                    error, NIB_EINVAL, "%s of %s reduces over %zu elements; rotation %s needs a multiple of %u",
                    nib_pass_name((enum nib_pass)pass), gemm_name(c, gemm), extent, nib_rotation_name(a), size_a);
        }
    }
    return NIB_OK;
}

enum nib_status nib_chain_check(const struct nib_chain *c, struct nib_error *error) {
    if (c->depth == 0 || c->width == 0 || c->rows == 0 || (c->activation == NIB_CHAIN_SWIGLU && c->inner == 0))
        return nib_fail(error, NIB_EINVAL, "a chain needs depth, width and rows of at least 1");
    if (c->activation == NIB_CHAIN_SWIGLU && !c->norm)
        return nib_fail(error, NIB_EINVAL,
                        "swiglu without norm squares the signal layer by layer until it overflows; add norm");
    return check_rotations(c, error);
}
