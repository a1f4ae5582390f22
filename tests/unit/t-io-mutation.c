/* Valid files with something broken in them: the readers succeed or say in one line what is wrong, and never crash. The
 * damage is the same in every run. Longer runs: tests/fuzz. */
#include "fuzz/read_bytes.h"
#include "nib_files.h"

#define VECTOR(name) NIB_SOURCE_DIR "/tests/vectors/io/" name

enum { LARGEST = 1 << 16 };

static uint64_t state;

/* splitmix64 */
static uint64_t draw(uint64_t below) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % below;
}

/* One to three of: a byte set, a bit flipped, a number made extreme, a piece cut out, a piece doubled, a cut end. */
static size_t damage(uint8_t *bytes, size_t size) {
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff};
    for (uint64_t times = 1 + draw(3); times > 0 && size > 0; times--) {
        size_t at = (size_t)draw(size), length = 1 + (size_t)draw(8);
        if (length > size - at) length = size - at;
        switch (draw(6)) {
        case 0: bytes[at] = (uint8_t)draw(256); break;
        case 1: bytes[at] ^= (uint8_t)(1 << draw(8)); break;
        case 2: memset(bytes + at, extremes[draw(5)], length); break;
        case 3:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        case 4:
            memmove(bytes + at + length, bytes + at, size - at);
            size += length;
            break;
        case 5: size = at; break;
        }
    }
    return size;
}

static void break_in_many_ways(const char *path, unsigned times) {
    static uint8_t whole[LARGEST], broken[LARGEST + 64];
    FILE *stream = fopen(path, "rb");
    size_t size = fread(whole, 1, sizeof whole, stream);
    unsigned refused = 0;
    enum nib_status opened;
    fclose(stream);
    CU_ASSERT_FATAL(size > 0 && size < LARGEST);
    state = size;
    CU_ASSERT(nib_read_bytes(whole, size, &opened) && opened == NIB_OK);
    for (unsigned i = 0; i < times; i++) {
        memcpy(broken, whole, size);
        size_t left = damage(broken, size);
        NIB_CHECKF(nib_read_bytes(broken, left, &opened), "%s, damage %u", path, i);
        refused += opened != NIB_OK;
    }
    NIB_CHECKF(refused > times / 4, "%s: only %u of %u were refused", path, refused, times);
}

static unsigned rounds(void) { return nib_test_full() ? 50000 : 1500; }

static void broken_safetensors_are_survived(void) { break_in_many_ways(VECTOR("types.safetensors"), rounds()); }
static void broken_npy_is_survived(void) {
    break_in_many_ways(VECTOR("f4-fortran.npy"), rounds());
    break_in_many_ways(VECTOR("u2-fortran-cube.npy"), rounds());
}
static void broken_npz_is_survived(void) {
    break_in_many_ways(VECTOR("stored.npz"), rounds());
    break_in_many_ways(VECTOR("deflated.npz"), rounds());
}
static void broken_gguf_is_survived(void) { break_in_many_ways(VECTOR("types.gguf"), rounds()); }

/* Every possible cut of a file is noticed. */
static void every_cut_is_noticed(void) {
    static const char *const paths[] = {VECTOR("types.safetensors"), VECTOR("f4-version-1.npy"), VECTOR("types.gguf"),
                                        VECTOR("stored.npz")};
    static uint8_t whole[LARGEST];
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        FILE *stream = fopen(paths[k], "rb");
        size_t size = fread(whole, 1, sizeof whole, stream), spare = k == 2 ? 14 : 0; /* GGUF pads its last tensor */
        fclose(stream);
        for (size_t left = 1; left + spare < size; left++) {
            enum nib_status opened;
            NIB_CHECKF(nib_read_bytes(whole, left, &opened) && opened != NIB_OK, "%s cut to %zu bytes is accepted",
                       paths[k], left);
        }
    }
}

NIB_TEST_MAIN("broken files", {"broken safetensors are survived", broken_safetensors_are_survived},
              {"broken npy is survived", broken_npy_is_survived}, {"broken npz is survived", broken_npz_is_survived},
              {"broken GGUF is survived", broken_gguf_is_survived}, {"every cut is noticed", every_cut_is_noticed})
