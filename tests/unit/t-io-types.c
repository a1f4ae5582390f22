/* Files by the reference writer of each format (tests/vectors/io/make.py): safetensors, GGUF, HDF5. */
#include "io/entry.h"
#include "nib_files.h"
#include <nibble/tensor.h>

#define VECTOR(name) NIB_SOURCE_DIR "/tests/vectors/io/" name

struct wanted {
    const char *name, *dtype;
    unsigned rank;
    uint64_t shape[2];
    uint64_t bytes;
    const char *hex;             /* of the first bytes */
    int view;                    /* enum nib_dtype, or -1 where a view is refused */
};

static void check_tensor(struct nib_file *file, const struct wanted *wanted) {
    struct nib_error error;
    struct nib_tensor_info info;
    struct nib_view view;
    size_t at;
    const void *data;
    uint64_t bytes;
    char hex[128] = "";
    NIB_OK_OR_FAIL(nib_file_find(file, wanted->name, &at, &error), error);
    nib_file_tensor(file, at, &info);
    NIB_CHECKF(strcmp(info.dtype, wanted->dtype) == 0, "%s: dtype %s", wanted->name, info.dtype);
    NIB_CHECKF(info.rank == wanted->rank && info.bytes == wanted->bytes, "%s: rank or size", wanted->name);
    for (unsigned i = 0; i < wanted->rank; i++)
        NIB_CHECKF(info.shape[i] == wanted->shape[i], "%s: dimension %u is %llu", wanted->name, i,
                   (unsigned long long)info.shape[i]);
    NIB_OK_OR_FAIL(nib_file_bytes(file, at, &data, &bytes, &error), error);
    CU_ASSERT_EQUAL(bytes, wanted->bytes);
    for (size_t i = 0; i < bytes && 2 * i < strlen(wanted->hex); i++)
        sprintf(hex + 2 * i, "%02x", ((const uint8_t *)data)[i]);
    NIB_CHECKF(strcmp(hex, wanted->hex) == 0, "%s: bytes %s", wanted->name, hex);
    if (wanted->view >= 0) {
        NIB_OK_OR_FAIL(nib_file_view(file, at, true, &view, &error), error);
        NIB_CHECKF((int)view.dtype == wanted->view, "%s: view of type %d", wanted->name, view.dtype);
        NIB_CHECKF(view.rows * view.cols * (view.dtype == NIB_F32 ? 4 : 2) == bytes || strcmp(info.dtype, "F64") == 0,
                   "%s: view of %zu x %zu", wanted->name, view.rows, view.cols);
    } else {
        nib_expect_error(nib_file_view(file, at, true, &view, &error), NIB_EINVAL, &error, "types.", wanted->dtype,
                         wanted->name);
    }
}

static void check_file(const char *path, const char *kind, const struct wanted *wanted, size_t count, size_t tensors,
                       const char *key, const char *value) {
    struct nib_error error;
    struct nib_file *file;
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    CU_ASSERT_STRING_EQUAL(nib_file_kind(file), kind);
    CU_ASSERT_EQUAL(nib_file_count(file), tensors);
    for (size_t i = 0; i < count; i++) check_tensor(file, &wanted[i]);
    const char *found = nib_file_metadata(file, key);
    NIB_CHECKF(found != NULL && strcmp(found, value) == 0, "%s: %s is %s", path, key, found == NULL ? "missing" : found);
    nib_file_close(file);
}

static void safetensors_by_its_own_library(void) {
    static const struct wanted wanted[] = {
        {"w", "F32", 2, {2, 3}, 24, "0000803f00000040", NIB_F32}, {"h", "F16", 1, {2}, 4, "003800c0", NIB_F16},
        {"b", "BF16", 1, {2}, 4, "803f00c0", NIB_BF16},           {"d", "F64", 1, {1}, 8, "9a9999999999b93f", NIB_F32},
        {"codes", "U8", 2, {1, 2}, 2, "12f0", -1},                {"scalar", "I32", 0, {0}, 4, "07000000", -1},
        {"empty", "F32", 2, {0, 4}, 0, "", NIB_F32}};
    check_file(VECTOR("types.safetensors"), "safetensors", wanted, 7, 7, "format", "np");
}

static void gguf_by_its_own_library(void) {
    static const struct wanted wanted[] = {
        {"w", "F32", 2, {2, 3}, 24, "0000803f00000040", NIB_F32}, {"h", "F16", 1, {2}, 4, "003800c0", NIB_F16},
        {"b", "BF16", 1, {2}, 4, "803f00c0", NIB_BF16},           {"mx", "MXFP4", 2, {1, 64}, 34, "0001020304", -1},
        {"nv", "NVFP4", 2, {2, 64}, 72, "0001020304", -1},        {"q4", "Q4_0", 2, {1, 32}, 18, "0001020304", -1}};
    check_file(VECTOR("types.gguf"), "gguf", wanted, 6, 6, "test.negative", "-3");
    check_file(VECTOR("types.gguf"), "gguf", wanted, 6, 6, "test.ratio", "0.5");
    check_file(VECTOR("types.gguf"), "gguf", wanted, 6, 6, "general.name", "sample");
}

static void hdf5_by_h5py(void) {
    static const struct wanted wanted[] = {
        {"g/f32", "F32", 2, {2, 2}, 16, "0000803f00000040", NIB_F32},
        {"g/f32-big-endian", "F32", 2, {2, 2}, 16, "0000803f00000040", NIB_F32},
        {"f16", "F16", 1, {1}, 2, "0038", NIB_F16}, {"bf16", "BF16", 1, {2}, 4, "803f00c0", NIB_BF16},
        {"f64", "F64", 0, {0}, 8, "9a9999999999b93f", NIB_F32}, {"u8", "U8", 1, {3}, 3, "000102", -1},
        {"fp4", "F4_E2M1", 1, {3}, 3, "010f06", -1}}; /* shared case file-format-05: a value a byte */
    check_file(VECTOR("types.h5"), "hdf5", wanted, 7, 8, "note", "hello");
}

static void texts_are_listed_but_not_read(void) {
    struct nib_error error;
    struct nib_file *file;
    const void *data;
    uint64_t bytes;
    size_t at;
    NIB_OK_OR_FAIL(nib_file_open(VECTOR("types.h5"), &file, &error), error);
    NIB_OK_OR_FAIL(nib_file_find(file, "text", &at, &error), error);
    nib_expect_error(nib_file_bytes(file, at, &data, &bytes, &error), NIB_EINVAL, &error, "types.h5", "numbers", "text");
    nib_file_close(file);
}

/* A copy of a vector, cut or with bytes replaced. */
static const char *damaged(const char *path, size_t size, size_t at, const char *bytes, size_t count) {
    static char buffer[16384];
    FILE *stream = fopen(path, "rb");
    size_t length = fread(buffer, 1, sizeof buffer, stream);
    fclose(stream);
    if (size > 0) length = size;
    memcpy(buffer + at, bytes, count);
    return nib_write("damaged", buffer, length);
}

static void damaged_files_are_refused(void) {
    struct nib_error error;
    struct nib_file *file = NULL;
    nib_expect_error(nib_file_open(damaged(VECTOR("types.gguf"), 100, 0, "", 0), &file, &error), NIB_ESYNTAX, &error,
                     "damaged", "truncated", "cut GGUF header");
    nib_expect_error(nib_file_open(damaged(VECTOR("types.gguf"), 800, 0, "", 0), &file, &error), NIB_EINCONSISTENT, &error,
                     "damaged", "truncated", "cut GGUF data");
    nib_expect_error(nib_file_open(damaged(VECTOR("types.gguf"), 0, 4, "\1", 1), &file, &error), NIB_ESYNTAX, &error,
                     "damaged", "version 1", "GGUF version");
    nib_expect_error(nib_file_open(damaged(VECTOR("types.gguf"), 0, 4, "\0\0\0\3", 4), &file, &error), NIB_ESYNTAX, &error,
                     "damaged", "big-endian", "GGUF byte order");
    nib_expect_error(nib_file_open(damaged(VECTOR("types.gguf"), 0, 15, "\x7f", 1), &file, &error), NIB_ESYNTAX, &error,
                     "damaged", "truncated", "GGUF tensor count");
    nib_expect_error(nib_file_open(damaged(VECTOR("types.h5"), 600, 0, "", 0), &file, &error), NIB_EIO, &error, "damaged",
                     "HDF5", "cut HDF5");
    CU_ASSERT_PTR_NULL(file);
}

static void nothing_is_left_behind(void) { CU_ASSERT(nib_remove_folder() > 0); }

NIB_TEST_MAIN("files by reference writers", {"safetensors by its own library", safetensors_by_its_own_library},
              {"GGUF by its own library", gguf_by_its_own_library}, {"HDF5 by h5py", hdf5_by_h5py},
              {"texts are listed but not read", texts_are_listed_but_not_read},
              {"damaged files are refused", damaged_files_are_refused},
              {"nothing is left behind", nothing_is_left_behind})
