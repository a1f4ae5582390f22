/* .npy and .npz arrays as numpy writes them (tests/vectors/io/make.py), broken ones, and FILE[:tensor]. */
#include "io/locator.h"
#include "nib_files.h"
#include <nibble/tensor.h>

#define VECTOR(name) NIB_SOURCE_DIR "/tests/vectors/io/" name

static struct nib_file *open_or_null(const char *path) {
    struct nib_error error;
    struct nib_file *file = NULL;
    enum nib_status status = nib_file_open(path, &file, &error);
    NIB_CHECKF(status == NIB_OK, "%s: %s", path, error.text);
    return file;
}

static bool is_one_to_six(struct nib_view view) {
    bool same = view.dtype == NIB_F32 && view.rows == 2 && view.cols == 3 && view.stride == 3;
    for (int i = 0; same && i < 6; i++) same = ((const float *)view.data)[i] == (float)(i + 1);
    return same;
}

static void every_header_version_and_order_gives_the_same_matrix(void) {
    static const char *const paths[] = {VECTOR("f4-version-1.npy"), VECTOR("f4-version-2.npy"),
                                        VECTOR("f4-version-3.npy"), VECTOR("f4-fortran.npy")};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct nib_error error;
        struct nib_tensor_info info;
        struct nib_view view;
        struct nib_file *file = open_or_null(paths[i]);
        if (file == NULL) return;
        nib_file_tensor(file, 0, &info);
        CU_ASSERT(nib_file_count(file) == 1 && info.bytes == 24 && info.rank == 2);
        CU_ASSERT_STRING_EQUAL(info.name, "");
        CU_ASSERT_STRING_EQUAL(info.dtype, "<f4");
        for (int again = 0; again < 2; again++) {
            NIB_OK_OR_FAIL(nib_file_view(file, 0, false, &view, &error), error);
            NIB_CHECKF(is_one_to_six(view), "%s", paths[i]);
        }
        nib_file_close(file);
    }
}

static void column_major_arrays_of_any_rank_become_row_major(void) {
    struct nib_error error;
    const void *data;
    uint64_t bytes;
    struct nib_file *file = open_or_null(VECTOR("u2-fortran-cube.npy"));
    if (file == NULL) return;
    NIB_OK_OR_FAIL(nib_file_bytes(file, 0, &data, &bytes, &error), error);
    CU_ASSERT_EQUAL(bytes, 48);
    for (unsigned i = 0; i < 24; i++) {
        uint16_t value;
        memcpy(&value, (const char *)data + 2 * i, 2);
        CU_ASSERT_EQUAL(value, i);
    }
    nib_file_close(file);
}

static void other_dtypes_are_viewed_or_explained(void) {
    struct nib_error error;
    struct nib_view view;
    const void *data;
    uint64_t bytes;
    struct nib_file *file = open_or_null(VECTOR("f2.npy"));
    NIB_OK_OR_FAIL(nib_file_view(file, 0, false, &view, &error), error);
    CU_ASSERT(view.dtype == NIB_F16 && view.rows == 1 && view.cols == 2);
    CU_ASSERT(((const uint16_t *)view.data)[0] == 0x3800 && ((const uint16_t *)view.data)[1] == 0xc000);
    nib_file_close(file);
    file = open_or_null(VECTOR("v2.npy"));
    NIB_OK_OR_FAIL(nib_file_view(file, 0, false, &view, &error), error);
    CU_ASSERT(view.dtype == NIB_BF16 && ((const uint16_t *)view.data)[1] == 0xc000);
    nib_file_close(file);
    file = open_or_null(VECTOR("f8.npy"));
    nib_expect_error(nib_file_view(file, 0, false, &view, &error), NIB_EINVAL, &error, "f8.npy", "--cast fp32", "f8");
    NIB_OK_OR_FAIL(nib_file_view(file, 0, true, &view, &error), error);
    CU_ASSERT(view.rows == 1 && view.cols == 1 && ((const float *)view.data)[0] == 0.1f);
    nib_file_close(file);
    file = open_or_null(VECTOR("u1.npy"));
    NIB_OK_OR_FAIL(nib_file_bytes(file, 0, &data, &bytes, &error), error);
    CU_ASSERT(bytes == 4 && memcmp(data, "\2\7\12\17", 4) == 0);
    nib_expect_error(nib_file_view(file, 0, false, &view, &error), NIB_EINVAL, &error, "u1.npy", "|u1", "u1");
    nib_file_close(file);
    file = open_or_null(VECTOR("v1.npy")); /* shared case file-format-03: the type is lost, so it must be asked for */
    nib_expect_error(nib_file_view(file, 0, false, &view, &error), NIB_EINVAL, &error, "v1.npy", "--dtype", "v1");
    NIB_OK_OR_FAIL(nib_file_bytes(file, 0, &data, &bytes, &error), error);
    CU_ASSERT(bytes == 4 && memcmp(data, "\2\7\12\17", 4) == 0);
    nib_file_close(file);
    file = NULL;
    nib_expect_error(nib_file_open(VECTOR("f4-big-endian.npy"), &file, &error), NIB_ESYNTAX, &error, "big-endian.npy",
                     "a.astype('<f4')", "big-endian");
    nib_expect_error(nib_file_open(VECTOR("structured.npy"), &file, &error), NIB_ESYNTAX, &error, "structured.npy",
                     "structured", "structured");
    nib_expect_error(nib_file_open(VECTOR("object.npy"), &file, &error), NIB_ESYNTAX, &error, "object.npy", "pickled",
                     "object");
    CU_ASSERT_PTR_NULL(file);
}

static void broken_headers_are_refused_with_the_reason(void) {
    static const struct {
        const char *dictionary;
        size_t data;
        enum nib_status status;
        const char *reason;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11, NIB_EINCONSISTENT, "truncated"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 13, NIB_EINCONSISTENT, "1 bytes follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 3, }", 12, NIB_ESYNTAX, "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 12, NIB_ESYNTAX, "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,4", 12, NIB_ESYNTAX, "tuple"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}", 12, NIB_ESYNTAX, "fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False}", 0, NIB_ESYNTAX, "missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, NIB_ESYNTAX, "twice"},
        {"{'descr': '<q4', 'fortran_order': False, 'shape': ()}", 4, NIB_ESYNTAX, "unknown dtype"},
        {"{'descr': 7, 'fortran_order': False, 'shape': ()}", 4, NIB_ESYNTAX, "dtype string"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4, NIB_ESYNTAX, "8 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}", 4, NIB_EINCONSISTENT, "overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4, NIB_ESYNTAX, "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4, NIB_ESYNTAX, "after the dictionary"},
        {"[]", 4, NIB_ESYNTAX, "dictionary"},
        {"", 0, NIB_ESYNTAX, "dictionary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nib_error error;
        struct nib_file *file = NULL;
        char bytes[256] = "\x93NUMPY\1";
        size_t length = strlen(cases[i].dictionary);
        bytes[8] = (char)length;
        memcpy(bytes + 10, cases[i].dictionary, length);
        const char *path = nib_write("bad.npy", bytes, 10 + length + cases[i].data);
        nib_expect_error(nib_file_open(path, &file, &error), cases[i].status, &error, "bad.npy", cases[i].reason,
                         cases[i].dictionary);
    }
    struct nib_error error;
    struct nib_file *file = NULL;
    nib_expect_error(nib_file_open(nib_write("cut", "\x93NUMPY\1\0\x70\0{'d", 13), &file, &error), NIB_ESYNTAX, &error,
                     "cut", "truncated", "cut header");
    nib_expect_error(nib_file_open(nib_write("new", "\x93NUMPY\4\0\0\0\0\0", 12), &file, &error), NIB_ESYNTAX, &error,
                     "new", "version", "version 4");
}

static void npz_members_are_tensors(void) {
    struct nib_error error;
    struct nib_tensor_info info;
    struct nib_view view;
    size_t at;
    struct nib_file *file = open_or_null(VECTOR("stored.npz"));
    CU_ASSERT_EQUAL(nib_file_count(file), 2);
    NIB_OK_OR_FAIL(nib_file_find(file, "w", &at, &error), error);
    NIB_OK_OR_FAIL(nib_file_view(file, at, false, &view, &error), error);
    CU_ASSERT(is_one_to_six(view));
    NIB_OK_OR_FAIL(nib_file_find(file, "b", &at, &error), error);
    nib_file_tensor(file, at, &info);
    CU_ASSERT_STRING_EQUAL(info.dtype, "<f2");
    nib_file_close(file);
    file = open_or_null(VECTOR("deflated.npz"));
    NIB_OK_OR_FAIL(nib_file_view(file, 0, false, &view, &error), error);
    CU_ASSERT(is_one_to_six(view));
    nib_file_close(file);
}

static void damaged_archives_are_refused(void) {
    char bytes[1024];
    struct nib_error error;
    struct nib_file *file = NULL;
    struct nib_view view;
    FILE *stream = fopen(VECTOR("stored.npz"), "rb");
    size_t size = fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    nib_expect_error(nib_file_open(nib_write("cut.npz", bytes, size - 30), &file, &error), NIB_ESYNTAX, &error, "cut.npz",
                     "zip archive", "truncated archive");
    for (size_t i = 0; i + 5 < size; i++) /* in the member and in the directory */
        if (memcmp(bytes + i, "b.npy", 5) == 0) bytes[i] = 'w';
    nib_expect_error(nib_file_open(nib_write("twice.npz", bytes, size), &file, &error), NIB_ESYNTAX, &error, "twice.npz",
                     "\"w.npy\" is there twice", "two members of one name");
    stream = fopen(VECTOR("stored.npz"), "rb");
    size = fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    bytes[35 + 20 + 128] ^= 1; /* one bit of a value: the checksum of the member no longer holds */
    file = open_or_null(nib_write("flip.npz", bytes, size));
    nib_expect_error(nib_file_view(file, 0, false, &view, &error), NIB_ESYNTAX, &error, "flip.npz", "\"w\"", "bad CRC");
    nib_file_close(file);
}

static void locators_split_at_the_file_that_exists(void) {
    struct nib_error error;
    struct nib_locator locator;
    nib_write("a", "x", 1);
    nib_write("b:c", "x", 1);
    static const struct {
        const char *text, *path, *tensor;
    } cases[] = {
        {"a", "a", ""}, {"a:w", "a", "w"}, {"a:", "a", ""}, {"a:w:x", "a", "w:x"}, {"b:c", "b:c", ""},
        {"b:c:d.*", "b:c", "d.*"}, {"none:w", "none", "w"}, {"none", "none", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], path[256];
        snprintf(text, sizeof text, "%s", nib_temporary(cases[i].text));
        snprintf(path, sizeof path, "%s", nib_temporary(cases[i].path));
        NIB_OK_OR_FAIL(nib_locator_parse(text, &locator, &error), error);
        NIB_CHECKF(strcmp(locator.path, path) == 0 && strcmp(locator.tensor, cases[i].tensor) == 0, "%s -> %s and %s",
                   text, locator.path, locator.tensor);
        nib_locator_free(&locator);
    }
}

static void locators_choose_one_tensor_or_several(void) {
    struct nib_error error;
    struct nib_file *file;
    size_t *indices, count;
    NIB_OK_OR_FAIL(nib_locator_open(VECTOR("stored.npz"), false, &file, &indices, &count, &error), error);
    CU_ASSERT(count == 2 && indices[1] == 1);
    free(indices);
    nib_file_close(file);
    NIB_OK_OR_FAIL(nib_locator_open(VECTOR("stored.npz:b"), true, &file, &indices, &count, &error), error);
    CU_ASSERT(count == 1 && indices[0] == 1);
    free(indices);
    nib_file_close(file);
    NIB_OK_OR_FAIL(nib_locator_open(VECTOR("f2.npy"), true, &file, &indices, &count, &error), error);
    CU_ASSERT(count == 1 && indices[0] == 0);
    free(indices);
    nib_file_close(file);
    nib_expect_error(nib_locator_open(VECTOR("stored.npz"), true, &file, &indices, &count, &error), NIB_ENOTFOUND, &error,
                     "stored.npz", "2 tensors", "one of two");
    nib_expect_error(nib_locator_open(VECTOR("stored.npz:*"), true, &file, &indices, &count, &error), NIB_EINVAL, &error,
                     "stored.npz", "exactly one", "glob of two");
    nib_expect_error(nib_locator_open(VECTOR("stored.npz:v"), false, &file, &indices, &count, &error), NIB_ENOTFOUND,
                     &error, "stored.npz", "\"v\"", "unknown name");
}

static void nothing_is_left_behind(void) { CU_ASSERT(nib_remove_folder() > 0); }

NIB_TEST_MAIN("npy and npz",
              {"every header version and order gives the same matrix",
               every_header_version_and_order_gives_the_same_matrix},
              {"column-major arrays of any rank become row-major", column_major_arrays_of_any_rank_become_row_major},
              {"other dtypes are viewed or explained", other_dtypes_are_viewed_or_explained},
              {"broken headers are refused with the reason", broken_headers_are_refused_with_the_reason},
              {"npz members are tensors", npz_members_are_tensors},
              {"damaged archives are refused", damaged_archives_are_refused},
              {"locators split at the file that exists", locators_split_at_the_file_that_exists},
              {"locators choose one tensor or several", locators_choose_one_tensor_or_several},
              {"nothing is left behind", nothing_is_left_behind})
