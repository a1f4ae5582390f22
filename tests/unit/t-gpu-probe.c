/* The kit for other devices: written whole or not at all, and what comes back is compared bit by bit. */
#include <CUnit/Basic.h>
#include <math.h>
#include <nibble/element.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/key.h"
#include "job/gpu_products.h"
#include "job/gpu_probe.h"
#include "job/gpu_report.h"

static char folder[64];

static void *slurp(const char *name, size_t *size) {
    char path[256];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &info) != 0) return NULL;
    void *data = malloc((size_t)info.st_size + 1);
    *size = fread(data, 1, (size_t)info.st_size, file);
    fclose(file);
    return data;
}

static void spit(const char *name, const void *data, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* Counts rows by result; *first gets the first difference. */
static unsigned rows_with(const struct nib_table *report, const char *result, char first[256]) {
    unsigned count = 0;
    for (size_t row = 0; row < nib_table_rows(report); row++) {
        if (strcmp(nib_table_text(report, row, NIB_GPU_RESULT), result) != 0) continue;
        if (count++ == 0 && first != NULL) snprintf(first, 256, "%s", nib_table_text(report, row, NIB_GPU_FIRST));
    }
    return count;
}

static void a_kit_is_written_once(void) {
    struct nib_error error = {0};
    size_t size;
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_write(folder, 1, &error), NIB_OK);
    char *program = slurp("probe.cu", &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(program);
    program[size] = '\0';
    CU_ASSERT_PTR_NOT_NULL(strstr(program, "cvt.rs.satfinite.e2m1x4.f32"));
    free(program);
    CU_ASSERT_EQUAL(nib_gpu_probe_write(folder, 1, &error), NIB_EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "not empty"));
}

static void an_unanswered_kit_is_an_error(void) {
    struct nib_error error = {0};
    struct nib_table *report;
    char device[160];
    CU_ASSERT_EQUAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "no outputs"));
    CU_ASSERT_EQUAL(nib_gpu_probe_verify("/", &report, device, &error), NIB_EIO);
}

static void conversions_to_nearest_are_compared(void) {
    struct nib_error error = {0};
    struct nib_table *report;
    const struct nib_element *e2m1;
    char device[160], first[256];
    size_t size;
    CU_ASSERT_EQUAL_FATAL(nib_element_open("e2m1", &e2m1, &error), NIB_OK);
    float *x = slurp("e2m1.x", &size);
    uint8_t *out = calloc(size / 8, 1);
    for (size_t i = 0; i < size / 4; i++) {
        unsigned code = isnan(x[i]) ? 7 : nib_element_round_ref(e2m1, NIB_RNE, x[i]); /* the definition, not the thresholds */
        out[i / 2] |= (uint8_t)(code << (i % 2 * 4));
    }
    static const char text[] = "Imaginary 9000\ncompute capability 12.0\n";
    spit("device.txt", text, sizeof text - 1);
    spit("e2m1.out", out, size / 8);
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_OK);
    CU_ASSERT_STRING_EQUAL(device, "Imaginary 9000, compute capability 12.0");
    CU_ASSERT_EQUAL(rows_with(report, "equal", NULL), 1);
    CU_ASSERT_EQUAL(rows_with(report, "not run on this device", NULL), 5);
    nib_table_free(report);
    out[3] ^= 0x10;
    spit("e2m1.out", out, size / 8);
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_OK);
    CU_ASSERT_EQUAL(rows_with(report, "DIFFERS", first), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(first, "code 7: device"));
    nib_table_free(report);
    spit("e2m1.out", out, 100);
    CU_ASSERT_EQUAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_EINCONSISTENT);
    out[3] ^= 0x10;
    spit("e2m1.out", out, size / 8);
    free(x);
    free(out);
    nib_element_close(e2m1);
}

/* Away from zero if floor(256 * fraction) + r >= 256, in plain binary64 arithmetic. */
static unsigned stochastic(float x, unsigned r) {
    static const double levels[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    double y = fabs((double)x);
    unsigned code = 0;
    while (code < 7 && levels[code + 1] <= y) code++;
    if (code < 7 && floor(256 * ((y - levels[code]) / (levels[code + 1] - levels[code]))) + r >= 256) code++;
    return code | (signbit(x) ? 8u : 0u);
}

static void the_order_of_random_bytes_is_found(void) {
    static const unsigned order[] = {0, 2, 1, 3};
    struct nib_error error = {0};
    struct nib_table *report;
    char device[160];
    size_t size, r_size;
    float *x = slurp("sr.x", &size);
    uint8_t *r = slurp("sr.rbits", &r_size);
    uint8_t *out = calloc(size / 8, 1);
    for (size_t i = 0; i < size / 4; i++)
        out[i / 2] |= (uint8_t)(stochastic(x[i], r[i / 4 * 4 + order[i % 4]]) << (i % 2 * 4));
    spit("sr.out", out, size / 8);
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_OK);
    CU_ASSERT_EQUAL(rows_with(report, "equal", NULL), 5);
    for (unsigned i = 0; i < 4; i++) {
        char name[80];
        snprintf(name, sizeof name, "cvt.rs.satfinite.e2m1x4, element %u takes byte %u of the random word", i, order[i]);
        CU_ASSERT_STRING_EQUAL(nib_table_text(report, 1 + i, NIB_GPU_NAME), name);
    }
    nib_table_free(report);
    free(x);
    free(r);
    free(out);
}

static void products_are_compared(void) {
    const struct nib_gpu_probe_product *p = &nib_gpu_probe_products[0];
    struct nib_error error = {0};
    struct nib_table *report;
    const struct nib_unit *unit;
    char device[160], first[256];
    size_t size, k = 128, row = 64, per_row = 8;
    CU_ASSERT_EQUAL_FATAL(nib_unit_open(p->unit, &unit, &error), NIB_OK);
    uint8_t *a = slurp("nvfp4.a", &size), *b = slurp("nvfp4.b", &size), *sa = slurp("nvfp4.a-scales", &size), *sb = slurp("nvfp4.b-scales", &size);
    uint32_t *c = slurp("nvfp4.c", &size);
    for (size_t tile = 0; tile < size / 512; tile++)
        for (size_t i = 0; i < 128; i++) {
            struct nib_unit_matrix left = {p->operand, a + tile * 16 * row, row, sa + tile * 16 * per_row, per_row};
            struct nib_unit_matrix right = {p->operand, b + tile * 8 * row, row, sb + tile * 8 * per_row, per_row};
            c[tile * 128 + i] = (uint32_t)nib_unit_dot_ref(unit, &left, i / 8, &right, i % 8, k, c[tile * 128 + i]);
        }
    spit("nvfp4.out", c, size);
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_OK);
    CU_ASSERT_EQUAL(rows_with(report, "equal", NULL), 5 + NIB_GPU_OPERANDS_COUNT);
    CU_ASSERT_EQUAL(rows_with(report, "not run on this device", NULL), 3);
    nib_table_free(report);
    c[5] ^= 1;
    spit("nvfp4.out", c, size);
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_OK);
    CU_ASSERT_EQUAL(rows_with(report, "DIFFERS", first), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(first, "output (0, 5) of tile 0"));
    nib_table_free(report);
    nib_unit_close(unit);
    free(a);
    free(b);
    free(c);
    free(sa);
    free(sb);
}

/* Scales by the layout that cuBLAS documents, outputs by the definition of the unit. */
static void products_of_the_library_are_compared(void) {
    enum { SIDE = 128, DEPTH = 256, ROW = DEPTH / 2, PER_ROW = DEPTH / 16, SETS = NIB_GPU_OPERANDS_COUNT };
    static uint8_t scales[2][SIDE * PER_ROW];
    struct nib_error error = {0};
    struct nib_table *report;
    const struct nib_unit *unit;
    char device[160], first[256];
    size_t size[4];
    CU_ASSERT_EQUAL_FATAL(nib_unit_open("blackwell-tcgen05-nvfp4", &unit, &error), NIB_OK);
    uint8_t *a = slurp("cublaslt-nvfp4.a", &size[0]), *b = slurp("cublaslt-nvfp4.b", &size[1]);
    uint8_t *tiled[2] = {slurp("cublaslt-nvfp4.a-scales", &size[2]), slurp("cublaslt-nvfp4.b-scales", &size[3])};
    CU_ASSERT_FATAL(a != NULL && b != NULL && tiled[0] != NULL && tiled[1] != NULL);
    CU_ASSERT_FATAL(size[0] == SETS * SIDE * ROW && size[1] == size[0] && size[2] == SETS * SIDE * PER_ROW && size[3] == size[2]);
    uint32_t *d = calloc(SETS * SIDE * SIDE, sizeof *d);
    for (size_t set = 0; set < SETS; set++) {
        for (size_t side = 0; side < 2; side++)
            for (size_t r = 0; r < SIDE; r++)
                for (size_t s = 0; s < PER_ROW; s++)
                    scales[side][r * PER_ROW + s] = tiled[side][set * sizeof scales[0] + s / 4 * 512 + r % 32 * 16 + r / 32 * 4 + s % 4];
        struct nib_unit_matrix left = {NIB_OPERAND_E2M1, a + set * SIDE * ROW, ROW, scales[0], PER_ROW};
        struct nib_unit_matrix right = {NIB_OPERAND_E2M1, b + set * SIDE * ROW, ROW, scales[1], PER_ROW};
        for (size_t i = 0; i < SIDE * SIDE; i++)
            d[set * SIDE * SIDE + i] = (uint32_t)nib_unit_dot_ref(unit, &left, i / SIDE, &right, i % SIDE, DEPTH, 0);
    }
    spit("cublaslt-nvfp4.out", d, SETS * SIDE * SIDE * sizeof *d);
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_OK);
    CU_ASSERT_EQUAL(rows_with(report, "not run on this device", NULL), 2);
    CU_ASSERT_EQUAL(rows_with(report, "equal", NULL), 4 + 2 * NIB_GPU_OPERANDS_COUNT); /* one row of mma differs since above */
    nib_table_free(report);
    d[(NIB_GPU_OPERANDS_CANCEL * SIDE + 77) * SIDE + 5] ^= 1;
    spit("cublaslt-nvfp4.out", d, SETS * SIDE * SIDE * sizeof *d);
    CU_ASSERT_EQUAL_FATAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_OK);
    CU_ASSERT_EQUAL(rows_with(report, "equal", NULL), 3 + 2 * NIB_GPU_OPERANDS_COUNT);
    CU_ASSERT_EQUAL(rows_with(report, "DIFFERS", first), 2);
    bool found = false;
    for (size_t row = 0; row < nib_table_rows(report); row++)
        found = found || strstr(nib_table_text(report, row, NIB_GPU_FIRST), "output (77, 5): device") != NULL;
    CU_ASSERT_TRUE(found);
    nib_table_free(report);
    spit("cublaslt-nvfp4.out", d, 100);
    CU_ASSERT_EQUAL(nib_gpu_probe_verify(folder, &report, device, &error), NIB_EINCONSISTENT);
    nib_unit_close(unit);
    free(a);
    free(b);
    free(tiled[0]);
    free(tiled[1]);
    free(d);
}

int main(void) {
    char parent[] = "/tmp/nibble-probe-XXXXXX", command[128];
    if (mkdtemp(parent) == NULL) return 1;
    snprintf(folder, sizeof folder, "%s/kit", parent);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("gpu probe", NULL, NULL);
    CU_ADD_TEST(suite, a_kit_is_written_once);
    CU_ADD_TEST(suite, an_unanswered_kit_is_an_error);
    CU_ADD_TEST(suite, conversions_to_nearest_are_compared);
    CU_ADD_TEST(suite, the_order_of_random_bytes_is_found);
    CU_ADD_TEST(suite, products_are_compared);
    CU_ADD_TEST(suite, products_of_the_library_are_compared);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    snprintf(command, sizeof command, "rm -rf '%s'", parent);
    return system(command) != 0 || failures > 0;
}
