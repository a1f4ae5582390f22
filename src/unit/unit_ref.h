/* The reference models, one function per algorithm: one block of products and an accumulator.
 * Written to be read beside docs/spec/matrix-units.md; the fast models must give the same bits. */
#ifndef NIB_UNIT_REF_H
#define NIB_UNIT_REF_H

#include "unit/number.h"

enum { NIB_UNIT_BLOCK_MAX = 128 };

/* Infinities and NaN of the products and the accumulator, which every model treats alike. True where
 * the result is decided: *infinity tells which, or *nan. */
bool nib_ref_specials(const struct nib_number *a, const struct nib_number *b, size_t count, struct nib_number c,
                      bool *nan, bool *negative);

/* T-FDPA and, with the exponent of the scales, ST-FDPA: rounds to the accumulator's bits. */
uint64_t nib_ref_t_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                        size_t count, int scale_exponent, uint64_t c);
/* GST-FDPA: groups * unit->group elements, one scale pair a group. */
uint64_t nib_ref_gst_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                          size_t groups, const struct nib_number *scale_a, const struct nib_number *scale_b,
                          uint64_t c);
/* One emulated FP8 mma.sync: 32 products. */
uint64_t nib_ref_split_t_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                              size_t count, uint64_t c);
/* IEEE addition of accumulators, round to nearest, with NVIDIA's one NaN (FADD.RN, HADD2.RN). */
uint64_t nib_ref_add(enum nib_accumulator accumulator, uint64_t x, uint64_t y);

/* AMD. FMA and FTZ work on bits, since they are made of IEEE operations. */
uint64_t nib_ref_e_fdpa(const struct nib_number *a, const struct nib_number *b, size_t count, uint64_t c);
uint64_t nib_ref_tr_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                         size_t count, uint64_t c);
uint64_t nib_ref_gtr_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                          size_t count, uint64_t c);
uint64_t nib_ref_ftz_pairwise(const struct nib_number *a, const struct nib_number *b, size_t count, uint64_t c);
uint64_t nib_ref_fma(const struct nib_unit *unit, uint64_t a, uint64_t b, uint64_t c);

#endif
