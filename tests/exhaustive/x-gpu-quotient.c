/* The GPU kernels' division by FP32 scales, the device's own lines (src/gpu/cuda/quotient.h) run on the processor.
 *
 * Significands: every x of 8 bits in [1, 2) over every divisor of 24 bits in [1, 2) must give the quotient of an IEEE
 * division, bit for bit. That settles every exponent for which nothing under- or overflows, because each step is then
 * exact or rounds at a place that moves with the exponents: with x = m 2^a and s = n 2^b the reciprocal scales by 2^-b,
 * product and quotient by 2^(a - b), remainder by 2^a. bf16 numbers below 2^-126 are such numbers with fewer bits. What
 * an exponent can break, and what is checked of it:
 *  - the reciprocal must be normal: s from 2^-90 to 2^100 gives 2^-100 to 2^90;
 *  - the remainder is a multiple of ulp(y) ulp(s), and exact where that is 2^-149 or more: for y from 2^-9 and s from
 * 2^-90 on it is 2^-32 2^-113. Smaller quotients may be wrong in their last bits, which no code and no 8-bit fraction
 * sees, but must stay small and keep their signs;
 *  - beyond these divisors the kernels divide (s.plain of fast_scale is false and scaled() is called).
 * So all that a kernel meets is tried besides: every finite bf16 amax, its scale amax / largest for both grids, and
 * every x up to it. */
#include "core/convert.h"
#include "gpu/cuda/quotient.h"
#include "nib_test.h"
#include <inttypes.h>

static bool same(float a, float b) {
    return nib_bits_of_float(a) == nib_bits_of_float(b);
}

/* The number of wrong quotients of one divisor, of significands 128 to 255 over 128 and both signs. */
static unsigned wrong_quotients(float divisor, float unit) {
    float factor = 1.0f / divisor;
    unsigned wrong = 0;
    for (int m = 128; m < 256; m++) {
        float x = (float)m * unit;
        wrong += !same(nib_quotient(x, factor, divisor), x / divisor);
        wrong += !same(nib_quotient(-x, factor, divisor), -x / divisor);
    }
    return wrong;
}

static void every_significand(void) {
    const uint32_t step = nib_test_full() ? 1 : 61, all = 1u << 23;
    uint64_t wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
    for (uint32_t n = 0; n < all; n += step) {
        unsigned here = wrong_quotients(nib_float_of_bits(0x3F800000u | n), 0x1p-7f);
        if (here != 0 && wrong < 10)
            fprintf(stderr, "\n%u wrong quotients by %a\n", here, (double)nib_float_of_bits(0x3F800000u | n));
        wrong += here;
    }
    NIB_CHECKF(wrong == 0, "%" PRIu64 " wrong quotients", wrong);
    printf(" %u divisors, ", (all + step - 1) / step);
}

/* Divisors at either end of what holds, under quotients from the smallest that counts up to 8. */
static void both_ends_of_what_holds(void) {
    unsigned wrong = 0;
    for (uint32_t i = 0; i < 4096; i++)
        for (int e = -9; e < 3; e++) {
            uint32_t n = i * 2048 + i; /* significands over the whole range, both ends among them */
            float least = nib_float_of_bits((uint32_t)(127 - 90) << 23 | (n & 0x7FFFFF));
            float most = nib_float_of_bits((uint32_t)(127 + 99) << 23 | (~n & 0x7FFFFF));
            wrong +=
                wrong_quotients(least, ldexpf(1, e - 90 - 7 + 1)) + wrong_quotients(most, ldexpf(1, e + 99 - 7 + 1));
        }
    NIB_CHECKF(wrong == 0, "%u wrong quotients", wrong);
    NIB_CHECKF(wrong_quotients(0x1p100f, 0x1p93f) == 0, "wrong quotients by 2^100");
    CU_ASSERT(nib_quotient_holds(0x1p-90f) && nib_quotient_holds(0x1p100f));
    CU_ASSERT(!nib_quotient_holds(nextafterf(0x1p-90f, 0)) && !nib_quotient_holds(nextafterf(0x1p100f, INFINITY)));
    CU_ASSERT(!nib_quotient_holds(0) && !nib_quotient_holds(INFINITY) && !nib_quotient_holds(NAN));
}

/* Blocks of zeros have scale and factor 0. */
static void zeros_keep_their_sign(void) {
    for (int i = 0; i < 2; i++) {
        float divisor = i == 0 ? 0.0f : 1.75f, factor = i == 0 ? 0.0f : 1 / divisor;
        CU_ASSERT(same(nib_quotient(0.0f, factor, divisor), 0.0f));
        CU_ASSERT(same(nib_quotient(-0.0f, factor, divisor), -0.0f));
    }
}

/* Quotients of every bf16 number up to the amax, in ascending order, and those of the negative numbers. */
static unsigned wrong_in_block(uint32_t amax, float divisor, uint32_t step) {
    float factor = 1.0f / divisor;
    unsigned wrong = 0;
    for (uint32_t i = amax % step; i <= amax; i += step) {
        float x = nib_float_of_bits(i << 16), exact = x / divisor;
        float y = nib_quotient(x, factor, divisor), z = nib_quotient(-x, factor, divisor);
        bool right = exact >= 0x1p-9f ? same(y, exact) : y >= 0 && y < 0x1p-9f && !signbit(y);
        wrong += !right || !same(z, -y);
    }
    return wrong;
}

static void every_block_of_a_kernel(void) {
    static const float largest[2] = {6.0f, 3.5f};
    const uint32_t step = nib_test_full() ? 1 : 53;
    uint64_t wrong = 0, blocks = 0;
    for (int i = 0; i < 2; i++) {
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : wrong, blocks)
        for (uint32_t amax = 1; amax < 0x7F80; amax++) {
            float divisor = nib_float_of_bits(amax << 16) / largest[i];
            if (!nib_quotient_holds(divisor)) continue;
            unsigned here = wrong_in_block(amax, divisor, step);
            if (here != 0 && wrong < 10)
                fprintf(stderr, "\namax %04x, largest %g: %u wrong\n", amax, (double)largest[i], here);
            wrong += here;
            blocks++;
        }
    }
    NIB_CHECKF(wrong == 0, "%" PRIu64 " wrong quotients", wrong);
    NIB_CHECKF(blocks > 2 * 128 * 189, "only %" PRIu64 " maxima hold", blocks);
    printf(" %" PRIu64 " maxima, ", blocks);
}

NIB_TEST_MAIN("the GPU's quotients", {"every significand", every_significand},
              {"both ends of what holds", both_ends_of_what_holds}, {"zeros keep their sign", zeros_keep_their_sign},
              {"every block of a kernel", every_block_of_a_kernel})
