/* .safetensors files, single and sharded: what is legal is read, what is not is refused with its reason. */
#include "io/entry.h"
#include "nib_files.h"
#include <nibble/tensor.h>

/* Header text and `size` data bytes (0, 1, 2, ...) as a file. */
static const char *write_file(const char *name, const char *header, size_t size) {
    size_t length = strlen(header);
    uint8_t *bytes = calloc(8 + length + size, 1);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < size; i++) bytes[8 + length + i] = (uint8_t)i;
    const char *path = nib_write(name, bytes, 8 + length + size);
    free(bytes);
    return path;
}

static void tensors_are_listed_in_the_order_of_the_header(void) {
    struct nib_error error;
    struct nib_file *file;
    struct nib_tensor_info info;
    const char *path = write_file("a", "{\"__metadata__\":{\"format\":\"pt\"},"
                                       "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
                                       "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                       "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[8,8]},"
                                       "\"scalar\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[20,22]}}  ", 22);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    CU_ASSERT_EQUAL(nib_file_count(file), 4);
    nib_file_tensor(file, 0, &info);
    CU_ASSERT_STRING_EQUAL(info.name, "b.weight");
    CU_ASSERT_STRING_EQUAL(info.dtype, "BF16");
    CU_ASSERT_STRING_EQUAL(info.path, path);
    CU_ASSERT(info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3 && info.bytes == 12);
    CU_ASSERT_STRING_EQUAL(nib_file_metadata(file, "format"), "pt");
    struct nib_view view;
    NIB_OK_OR_FAIL(nib_file_view(file, 0, false, &view, &error), error);
    CU_ASSERT(view.dtype == NIB_BF16 && view.rows == 2 && view.cols == 3 && view.stride == 3);
    CU_ASSERT_EQUAL(((const uint16_t *)view.data)[1], 0x0b0a);
    CU_ASSERT((uintptr_t)view.data % 2 == 0);
    NIB_OK_OR_FAIL(nib_file_view(file, 1, false, &view, &error), error);
    CU_ASSERT(view.dtype == NIB_F32 && view.rows == 1 && view.cols == 2 && (uintptr_t)view.data % 4 == 0);
    CU_ASSERT_EQUAL(((const uint32_t *)view.data)[1], 0x07060504);
    NIB_OK_OR_FAIL(nib_file_view(file, 2, false, &view, &error), error);
    CU_ASSERT(view.rows == 0 && view.cols == 4);
    NIB_OK_OR_FAIL(nib_file_view(file, 3, false, &view, &error), error);
    CU_ASSERT(view.dtype == NIB_F16 && view.rows == 1 && view.cols == 1);
    nib_file_close(file);
}

static void four_bit_tensors_count_values_not_bytes(void) { /* shared case file-format-01 */
    struct nib_error error;
    struct nib_file *file;
    struct nib_tensor_info info;
    const void *data;
    uint64_t bytes;
    const char *path = write_file("a", "{\"w\":{\"dtype\":\"F4\",\"shape\":[3,4],\"data_offsets\":[0,6]},"
                                       "\"s\":{\"dtype\":\"F8_E8M0\",\"shape\":[3],\"data_offsets\":[6,9]}}", 9);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    nib_file_tensor(file, 0, &info);
    CU_ASSERT(info.shape[0] * info.shape[1] == 12 && info.bytes == 6);
    NIB_OK_OR_FAIL(nib_file_bytes(file, 0, &data, &bytes, &error), error);
    CU_ASSERT(bytes == 6 && ((const uint8_t *)data)[5] == 5);
    nib_file_tensor(file, 1, &info);
    CU_ASSERT(info.bytes == 3);
    NIB_OK_OR_FAIL(nib_file_bytes(file, 1, &data, &bytes, &error), error);
    CU_ASSERT(bytes == 3 && ((const uint8_t *)data)[0] == 6);
    struct nib_view view;
    nib_expect_error(nib_file_view(file, 0, false, &view, &error), NIB_EINVAL, &error, path, "F4", "view of F4");
    nib_file_close(file);
}

static void binary64_is_rounded_only_on_request(void) {
    struct nib_error error;
    struct nib_file *file;
    struct nib_view view = {.rows = 77};
    double values[3] = {0.1, 1.0 + 0x1p-24, 1e300}; /* the second is a tie between two binary32 numbers */
    char bytes[8 + 100 + 24] = {0};
    const char *header = "{\"x\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]}}";
    size_t length = strlen(header);
    bytes[0] = (char)length;
    memcpy(bytes + 8, header, length);
    memcpy(bytes + 8 + length, values, 24);
    const char *path = nib_write("a", bytes, 8 + length + 24);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    nib_expect_error(nib_file_view(file, 0, false, &view, &error), NIB_EINVAL, &error, path, "--cast fp32", "F64");
    CU_ASSERT_EQUAL(view.rows, 77);
    NIB_OK_OR_FAIL(nib_file_view(file, 0, true, &view, &error), error);
    const uint32_t *bits = view.data;
    CU_ASSERT(view.dtype == NIB_F32 && bits[0] == 0x3dcccccd && bits[1] == 0x3f800000 && bits[2] == 0x7f800000);
    nib_file_close(file);
}

static void malformed_files_are_refused_with_the_reason(void) {
    static const struct {
        const char *header;
        size_t data;
        enum nib_status status;
        const char *reason;
    } cases[] = {
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, NIB_EINCONSISTENT, "truncated"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, NIB_EINCONSISTENT, "1 bytes at the end"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, NIB_EINCONSISTENT, "need 8"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8, NIB_EINCONSISTENT, "before it begins"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6, NIB_EINCONSISTENT, "overlap"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, NIB_EINCONSISTENT, "overlap"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, NIB_EINCONSISTENT, "4 bytes before"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, NIB_EINCONSISTENT, "4 bytes before"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, NIB_ESYNTAX, "duplicate"},
        {"{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, NIB_EINCONSISTENT, "whole bytes"},
        {"{\"w\":{\"dtype\":\"F99\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, NIB_ESYNTAX, "unknown dtype \"F99\""},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,2]}}", 2, NIB_ESYNTAX, "dimension 0"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,2]}}", 2, NIB_ESYNTAX, "dimension 0"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":3,\"data_offsets\":[0,2]}}", 2, NIB_ESYNTAX, "shape"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, NIB_ESYNTAX, "at most 8"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,2]}}", 2,
         NIB_EINCONSISTENT, "overflows"},
        {"{\"w\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, NIB_EINCONSISTENT,
         "overflows"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,18446744073709551617]}}", 2, NIB_ESYNTAX, "header"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,9223372036854775807]}}", 2, NIB_EINCONSISTENT,
         "truncated"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0]}}", 2, NIB_ESYNTAX, "data_offsets"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[2]}}", 2, NIB_ESYNTAX, "data_offsets"},
        {"{\"w\":{\"shape\":[2],\"data_offsets\":[0,2]}}", 2, NIB_ESYNTAX, "dtype"},
        {"{\"w\":7}", 0, NIB_ESYNTAX, "JSON object"},
        {"{\"w\\u0000x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, NIB_ESYNTAX, "header"},
        {"{\"w\\nx\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, NIB_EINCONSISTENT, "w?x"},
        {"{\"__metadata__\":{\"a\":1}}", 0, NIB_ESYNTAX, "__metadata__"},
        {"{\"w\":", 0, NIB_ESYNTAX, "header"},
        {"{} x", 0, NIB_ESYNTAX, "header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nib_error error = {.text = ""};
        struct nib_file *file = NULL;
        const char *path = write_file("bad", cases[i].header, cases[i].data);
        nib_expect_error(nib_file_open(path, &file, &error), cases[i].status, &error, "bad", cases[i].reason,
                         cases[i].header);
        CU_ASSERT_PTR_NULL(file);
        nib_file_close(file);
    }
}

static void files_that_are_no_tensors_are_refused(void) {
    struct nib_error error;
    struct nib_file *file = NULL;
    nib_expect_error(nib_file_open(nib_temporary("missing"), &file, &error), NIB_EIO, &error, "missing", "No such file",
                     "missing file");
    nib_expect_error(nib_file_open(nib_write("empty", "", 0), &file, &error), NIB_ESYNTAX, &error, "empty", "empty",
                     "empty file");
    nib_temporary("");
    nib_expect_error(nib_file_open(nib_folder, &file, &error), NIB_EIO, &error, nib_folder, "directory", "directory");
    nib_expect_error(nib_file_open("/dev/null", &file, &error), NIB_EIO, &error, "/dev/null", "regular", "device");
    nib_expect_error(nib_file_open(nib_write("short", "abc", 3), &file, &error), NIB_ESYNTAX, &error, "short",
                     "truncated", "three bytes");
    nib_expect_error(nib_file_open(nib_write("text", "Hello, this is text.\n", 21), &file, &error), NIB_ESYNTAX, &error,
                     "text", "no format", "text");
    nib_expect_error(nib_file_open(nib_write("huge", "\1\xe1\xf5\5\0\0\0\0{", 9), &file, &error), NIB_ESYNTAX, &error,
                     "huge", "100000001", "header above the limit");
    nib_expect_error(nib_file_open(nib_write("cut", "\x40\0\0\0\0\0\0\0{", 9), &file, &error), NIB_ESYNTAX, &error, "cut",
                     "truncated", "cut header");
    nib_expect_error(nib_file_open(nib_write("none", "\0\0\0\0\0\0\0\0", 8), &file, &error), NIB_ESYNTAX, &error, "none",
                     "not a JSON object", "no header");
    nib_expect_error(nib_file_open(nib_write("pickle", "\x80\2}q\0.......", 12), &file, &error), NIB_ESYNTAX, &error,
                     "pickle", "pickle", "pickle");
    CU_ASSERT_PTR_NULL(file);
}

static void sharded_sets_are_one_file(void) {
    struct nib_error error;
    struct nib_file *file;
    struct nib_tensor_info info;
    write_file("one.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                  "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}", 6);
    write_file("two.safetensors", "{\"c\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]}}", 6);
    const char *index = "{\"metadata\":{\"total_size\":12},\n"
                        "\"weight_map\":{\"a\":\"one.safetensors\",\"c\":\"two.safetensors\",\"b\":\"one.safetensors\"}}";
    const char *path = nib_write("model.safetensors.index.json", index, strlen(index));
    for (int by_folder = 0; by_folder < 2; by_folder++) {
        NIB_OK_OR_FAIL(nib_file_open(by_folder ? nib_folder : path, &file, &error), error);
        CU_ASSERT_EQUAL(nib_file_count(file), 3);
        nib_file_tensor(file, 1, &info);
        CU_ASSERT_STRING_EQUAL(info.name, "c");
        CU_ASSERT_PTR_NOT_NULL(strstr(info.path, "two.safetensors"));
        struct nib_view view;
        NIB_OK_OR_FAIL(nib_file_view(file, 1, false, &view, &error), error);
        CU_ASSERT(view.cols == 3 && ((const uint16_t *)view.data)[2] == 0x0504);
        nib_file_close(file);
    }
    static const struct {
        const char *index, *file, *reason;
        enum nib_status status;
    } bad[] = {
        {"{\"weight_map\":{\"a\":\"three.safetensors\"}}", "three.safetensors", "No such file", NIB_EIO},
        {"{\"weight_map\":{\"x\":\"one.safetensors\"}}", "index.json", "not in shard", NIB_EINCONSISTENT},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "index.json", "plain file name", NIB_ESYNTAX},
        {"{\"weight_map\":{\"a\":1}}", "index.json", "no file name", NIB_ESYNTAX},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"one.safetensors\"}}", "index.json", "duplicate", NIB_ESYNTAX},
        {"{\"other\":1}", "index.json", "weight_map", NIB_ESYNTAX},
        {"{\"weight_map\":", "index.json", "shard index", NIB_ESYNTAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        path = nib_write("model.safetensors.index.json", bad[i].index, strlen(bad[i].index));
        nib_expect_error(nib_file_open(path, &file, &error), bad[i].status, &error, bad[i].file, bad[i].reason,
                         bad[i].index);
    }
}

static void names_are_found_and_globs_match(void) {
    struct nib_error error;
    struct nib_file *file;
    size_t at, *indices, count;
    const char *path =
        write_file("a", "{\"layers.0.q\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                        "\"layers.1.q\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
                        "\"layers.1.k\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}", 3);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    NIB_OK_OR_FAIL(nib_file_find(file, "layers.1.q", &at, &error), error);
    CU_ASSERT_EQUAL(at, 1);
    nib_expect_error(nib_file_find(file, "layers.1.w", &at, &error), NIB_ENOTFOUND, &error, path, "did you mean \"layers.1",
                     "misspelt name");
    nib_expect_error(nib_file_find(file, "", &at, &error), NIB_ENOTFOUND, &error, path, "3 tensors", "no name");
    NIB_OK_OR_FAIL(nib_file_match(file, "layers.*q", &indices, &count, &error), error);
    CU_ASSERT(count == 2 && indices[0] == 0 && indices[1] == 1);
    free(indices);
    NIB_OK_OR_FAIL(nib_file_match(file, "layers.[1-3].?", &indices, &count, &error), error);
    CU_ASSERT(count == 2 && indices[0] == 1 && indices[1] == 2);
    free(indices);
    nib_expect_error(nib_file_match(file, "x*", &indices, &count, &error), NIB_ENOTFOUND, &error, path, "matches",
                     "glob without a match");
    nib_file_close(file);
}

static void data_at_odd_addresses_is_aligned(void) {
    struct nib_error error;
    struct nib_file *file;
    struct nib_view view;
    const char *path = write_file("a", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                       "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]},"
                                       "\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[9,13]}}", 13);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    NIB_OK_OR_FAIL(nib_file_view(file, 1, false, &view, &error), error);
    CU_ASSERT((uintptr_t)view.data % 4 == 0 && ((const uint32_t *)view.data)[0] == 0x04030201);
    NIB_OK_OR_FAIL(nib_file_view(file, 2, false, &view, &error), error);
    CU_ASSERT((uintptr_t)view.data % 2 == 0 && ((const uint16_t *)view.data)[1] == 0x0c0b);
    nib_file_close(file);
}

static void nothing_is_left_behind(void) { CU_ASSERT(nib_remove_folder() > 0); }

NIB_TEST_MAIN("safetensors",
              {"tensors are listed in the order of the header", tensors_are_listed_in_the_order_of_the_header},
              {"four-bit tensors count values, not bytes", four_bit_tensors_count_values_not_bytes},
              {"binary64 is rounded only on request", binary64_is_rounded_only_on_request},
              {"malformed files are refused with the reason", malformed_files_are_refused_with_the_reason},
              {"files that are no tensors are refused", files_that_are_no_tensors_are_refused},
              {"sharded sets are one file", sharded_sets_are_one_file},
              {"names are found and globs match", names_are_found_and_globs_match},
              {"data at odd addresses is aligned", data_at_odd_addresses_is_aligned},
              {"nothing is left behind", nothing_is_left_behind})
