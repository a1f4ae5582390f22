/* Layouts against the reshapes that PyTorch libraries write, against their outputs, and against reported cases. */
#include <dirent.h>
#include <nibble/layout.h>
#include <nibble/tensor.h>

#include "nib_test.h"

/* 128x4 as torchao's to_blocked says it: view(R, 128, C, 4), permute(0, 2, 1, 3), reshape(-1, 4, 32, 4),
 * transpose(1, 2). Element (m, k) of the padded matrix, index by index. */
static size_t blocked(size_t m, size_t k, size_t tiles) {
    size_t tile = m / 128 * tiles + k / 4, in_tile = m % 128 * 4 + k % 4;         /* [tile][128][4] */
    size_t a = in_tile / 128, b = in_tile / 4 % 32, c = in_tile % 4;                 /* [4][32][4] */
    return tile * 512 + (b * 4 + a) * 4 + c;                                       /* [32][4][4] */
}

static void scales_lie_where_the_reshape_puts_them(void) {
    static const size_t shapes[][2] = {{1, 1}, {128, 4}, {129, 5}, {300, 9}, {37, 8}};
    for (size_t s = 0; s < 5; s++) {
        size_t rows = shapes[s][0], cols = shapes[s][1], pr, pc;
        size_t bytes = nib_scales_padded(NIB_SCALES_128X4, rows, cols, &pr, &pc), tiles = (cols + 3) / 4;
        CU_ASSERT(pr == (rows + 127) / 128 * 128 && pc == tiles * 4 && bytes == pr * pc);
        bool *seen = calloc(bytes, sizeof *seen);
        for (size_t m = 0; m < pr; m++)
            for (size_t k = 0; k < pc; k++) {
                size_t at = nib_scales_offset(NIB_SCALES_128X4, cols, m, k);
                NIB_CHECKF(at == blocked(m, k, tiles) && !seen[at], "%zu x %zu: (%zu, %zu) at %zu", rows, cols, m, k, at);
                seen[at] = true;
            }
        free(seen);
    }
}

/* Every byte of a tile of 8x4 is used once; the reported offsets hold. */
static void reported_offsets_hold(void) {
    CU_ASSERT(nib_scales_offset(NIB_SCALES_128X4, 5, 128, 0) == 1024 && nib_scales_offset(NIB_SCALES_128X4, 5, 129, 4) == 1552);
    CU_ASSERT(nib_scales_offset(NIB_SCALES_8X4, 8, 9, 5) == 101 && nib_scales_offset(NIB_SCALES_128X4, 8, 9, 5) == 657);
    CU_ASSERT(nib_scales_offset(NIB_SCALES_LINEAR, 8, 9, 5) == 77);
    CU_ASSERT(nib_scales_offset(NIB_SCALES_128X4, 8, 37, 5) == 597 && nib_scales_offset(NIB_SCALES_8X4, 8, 37, 5) == 309);
    CU_ASSERT(nib_scales_offset(NIB_SCALES_128X4, 12, 255, 11) == 3071 && nib_scales_offset(NIB_SCALES_128X4, 12, 128, 0) == 1536);
}

static void conversions_return_what_they_were_given(void) {
    enum { ROWS = 141, COLS = 7 };
    static uint8_t linear[ROWS * COLS], there[256 * 8], again[256 * 8], back[ROWS * COLS];
    for (size_t i = 0; i < ROWS * COLS; i++) linear[i] = (uint8_t)(i * 37 + 1);
    for (int a = 0; a < NIB_SCALE_LAYOUTS; a++)
        for (int b = 0; b < NIB_SCALE_LAYOUTS; b++) {
            nib_scales_convert(NIB_SCALES_LINEAR, linear, (enum nib_scale_layout)a, there, ROWS, COLS);
            nib_scales_convert((enum nib_scale_layout)a, there, (enum nib_scale_layout)b, again, ROWS, COLS);
            nib_scales_convert((enum nib_scale_layout)b, again, NIB_SCALES_LINEAR, back, ROWS, COLS);
            CU_ASSERT(memcmp(linear, back, sizeof linear) == 0);
        }
    size_t pr, pc, sum = 0, expected = 0, bytes = nib_scales_padded(NIB_SCALES_128X4, ROWS, COLS, &pr, &pc);
    memset(there, 0xFF, sizeof there);
    nib_scales_convert(NIB_SCALES_LINEAR, linear, NIB_SCALES_128X4, there, ROWS, COLS);
    for (size_t i = 0; i < bytes; i++) sum += there[i];
    for (size_t i = 0; i < ROWS * COLS; i++) expected += linear[i];
    CU_ASSERT(sum == expected); /* the padding is zero */
}

static unsigned checked;
static void check_file(const char *path) {
    struct nib_file *file;
    struct nib_error error;
    struct nib_tensor_info info;
    size_t scale, swizzled;
    const void *from, *expected;
    uint64_t from_bytes, bytes;
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    NIB_OK_OR_FAIL(nib_file_find(file, "scale", &scale, &error), error);
    NIB_OK_OR_FAIL(nib_file_find(file, "blocked", &swizzled, &error), error);
    nib_file_tensor(file, scale, &info);
    NIB_OK_OR_FAIL(nib_file_bytes(file, scale, &from, &from_bytes, &error), error);
    NIB_OK_OR_FAIL(nib_file_bytes(file, swizzled, &expected, &bytes, &error), error);
    size_t rows = (size_t)info.shape[0], cols = (size_t)info.shape[1], pr, pc;
    CU_ASSERT_EQUAL_FATAL(nib_scales_padded(NIB_SCALES_128X4, rows, cols, &pr, &pc), bytes);
    uint8_t *to = malloc(bytes);
    nib_scales_convert(NIB_SCALES_LINEAR, from, NIB_SCALES_128X4, to, rows, cols);
    NIB_CHECKF(memcmp(to, expected, bytes) == 0, "%s", path);
    checked++;
    free(to);
    nib_file_close(file);
}

static void golden_swizzles_are_reproduced(void) {
    const char *given = getenv("NIBBLE_GOLDEN_DIR"), *tree = given != NULL ? given : NIB_DATA_DIR "/golden";
    static const char *const directories[] = {"swizzle_torchao_to_blocked", "swizzle_fouroversix_to_blocked"};
    for (int i = 0; i < 2; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", tree, directories[i]);
        DIR *directory = opendir(path);
        CU_ASSERT_PTR_NOT_NULL_FATAL(directory);
        for (struct dirent *d; (d = readdir(directory)) != NULL;)
            if (strstr(d->d_name, ".safetensors") != NULL) {
                snprintf(path, sizeof path, "%s/%s/%s", tree, directories[i], d->d_name);
                check_file(path);
            }
        closedir(directory);
    }
    CU_ASSERT(checked >= 5);
}

/* Catalogue, row PK: codes 0 to 15, twice. */
static void nibbles_lie_as_the_catalogue_says(void) {
    static const struct {
        enum nib_nibble_order order;
        uint8_t first[4];
    } known[] = {{NIB_NIBBLES_LOW, {0x10, 0x32, 0x54, 0x76}}, {NIB_NIBBLES_HIGH, {0x01, 0x23, 0x45, 0x67}},
                 {NIB_NIBBLES_HALVES_32, {0x00, 0x11, 0x22, 0x33}}, {NIB_NIBBLES_HALVES_16, {0x80, 0x91, 0xA2, 0xB3}}};
    uint8_t codes[32], packed[16], back[32];
    for (unsigned i = 0; i < 32; i++) codes[i] = (uint8_t)(i % 16);
    for (size_t k = 0; k < 4; k++) {
        CU_ASSERT(nib_codes_packed_bytes(known[k].order, 32) == 16);
        nib_codes_pack(known[k].order, codes, 1, 32, packed);
        CU_ASSERT(memcmp(packed, known[k].first, 4) == 0);
        nib_codes_unpack(known[k].order, packed, 1, 32, back);
        CU_ASSERT(memcmp(codes, back, 32) == 0);
    }
    const uint8_t odd[] = {2, 15, 1, 5, 9, 3};
    nib_codes_pack(NIB_NIBBLES_LOW, odd, 2, 3, packed); /* a row of three takes two bytes */
    CU_ASSERT(memcmp(packed, ((uint8_t[]){0xF2, 0x01, 0x95, 0x03}), 4) == 0);
}

static void interleaved_groups_come_apart_again(void) {
    uint8_t codes[192], scales[24], bytes[200], codes_back[192], scales_back[24];
    for (unsigned i = 0; i < 192; i++) codes[i] = (uint8_t)(i * 7 % 16);
    for (unsigned i = 0; i < 24; i++) scales[i] = (uint8_t)(200 + i);
    static const size_t sizes[] = {17, 17, 17, 36, 18}, elements[] = {32, 32, 32, 64, 32};
    for (size_t i = 0; nib_interleaving_at(i) != NULL; i++) {
        const struct nib_interleaving *way = nib_interleaving_at(i);
        CU_ASSERT(nib_interleaved_bytes(way, elements[i]) == sizes[i] && nib_interleaved_bytes(way, elements[i] + 2) == 0);
        size_t count = 3 * elements[i], scale_bytes = count / way->block * way->scale_bytes;
        nib_interleave(way, codes, scales, count, bytes);
        nib_deinterleave(way, bytes, count, codes_back, scales_back);
        CU_ASSERT(memcmp(codes, codes_back, count) == 0 && memcmp(scales, scales_back, scale_bytes) == 0);
        CU_ASSERT(bytes[way->scales_first ? 0 : sizes[i] - 1] == 200);
        CU_ASSERT(bytes[sizes[i] + (way->scales_first ? 0 : sizes[i] - 1)] == 200 + way->blocks * way->scale_bytes);
    }
    /* fbgemm, first element high; ggml-mxfp4, j with j + 16 */
    nib_interleave(nib_interleaving_at(0), codes, scales, 32, bytes);
    CU_ASSERT(bytes[0] == (codes[0] << 4 | codes[1]));
    nib_interleave(nib_interleaving_at(2), codes, scales, 32, bytes);
    CU_ASSERT(bytes[1] == (codes[0] | codes[16] << 4));
}

static void unknown_names_list_the_known(void) {
    enum nib_scale_layout layout;
    enum nib_nibble_order order;
    struct nib_error error;
    CU_ASSERT(nib_scale_layout_parse("128x8", &layout, &error) == NIB_EINVAL && strstr(error.text, "128x4 or 8x4") != NULL);
    CU_ASSERT(nib_nibble_order_parse("middle", &order, &error) == NIB_EINVAL && strstr(error.text, "j|j+16") != NULL);
    for (int i = 0; i < NIB_SCALE_LAYOUTS; i++)
        CU_ASSERT(nib_scale_layout_parse(nib_scale_layout_name((enum nib_scale_layout)i), &layout, &error) == NIB_OK && (int)layout == i);
}

NIB_TEST_MAIN("layouts", {"scales lie where the reshape puts them", scales_lie_where_the_reshape_puts_them},
              {"reported offsets hold", reported_offsets_hold},
              {"conversions return what they were given", conversions_return_what_they_were_given},
              {"golden swizzles are reproduced", golden_swizzles_are_reproduced},
              {"nibbles lie as the catalogue says", nibbles_lie_as_the_catalogue_says},
              {"interleaved groups come apart again", interleaved_groups_come_apart_again},
              {"unknown names list the known", unknown_names_list_the_known})
