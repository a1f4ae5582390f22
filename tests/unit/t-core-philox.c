/* Philox4x32-10 against Random123, the authors' own implementation. */
#include "core/philox.h"
#include "nib_test.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <Random123/philox.h>
#pragma GCC diagnostic pop

static unsigned differences(uint64_t key, uint64_t low, uint64_t high) {
    philox4x32_key_t k = {{(uint32_t)key, (uint32_t)(key >> 32)}};
    philox4x32_ctr_t c = {{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
    philox4x32_ctr_t expected = philox4x32(c, k);
    struct nib_philox_block got = nib_philox(key, low, high);
    unsigned bad = 0;
    for (int i = 0; i < 4; i++) bad += got.word[i] != expected.v[i];
    return bad;
}

static void every_word_equals_the_reference(void) {
    unsigned bad = differences(0, 0, 0) + differences(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    uint64_t mixed = 1;
    for (int i = 0; i < 10000; i++) {
        mixed = mixed * UINT64_C(6364136223846793005) + 1;
        bad += differences(mixed, mixed * 3, mixed ^ (mixed >> 17));
        bad += differences(7, (uint64_t)i, 3);
    }
    NIB_CHECKF(bad == 0, "%u words differ", bad);
}

/* From the authors' kat_vectors: all ones, and the digits of pi. */
static void published_vectors_hold(void) {
    struct nib_philox_block block = nib_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    CU_ASSERT(block.word[0] == 0x408f276d && block.word[1] == 0x41c83b0e && block.word[2] == 0xa20bc7c6 &&
              block.word[3] == 0x6d5451fd);
    block = nib_philox(UINT64_C(0x299f31d0a4093822), UINT64_C(0x85a308d3243f6a88), UINT64_C(0x0370734413198a2e));
    CU_ASSERT(block.word[0] == 0xd16cfe09 && block.word[1] == 0x94fdcceb && block.word[2] == 0x5001e420 &&
              block.word[3] == 0x24126ea1);
}

NIB_TEST_MAIN("philox", {"every word equals the reference", every_word_equals_the_reference},
              {"published vectors hold", published_vectors_hold})
