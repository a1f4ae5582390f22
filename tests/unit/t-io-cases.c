/* The public cases of kind file-format, and the conventions in which checkpoints store FP4 weights. */
#include "io/convention.h"
#include "io/decode.h"
#include "nib_files.h"

#include <hdf5.h>
#include <jansson.h>

static json_t *cases;

static json_t *find_case(const char *id) {
    size_t i;
    json_t *one;
    if (cases == NULL) cases = json_load_file(NIB_DATA_DIR "/cases/handover.json", 0, NULL);
    json_array_foreach(cases, i, one)
        if (strcmp(json_string_value(json_object_get(one, "id")), id) == 0) return one;
    fprintf(stderr, "no case %s\n", id);
    abort();
}

static json_t *input_of(json_t *one, const char *key) { return json_object_get(json_object_get(one, "input"), key); }
static json_t *expected_of(json_t *one, const char *key) { return json_object_get(json_object_get(one, "expected"), key); }

static uint64_t product(const uint64_t *shape, unsigned rank) {
    uint64_t count = 1;
    for (unsigned i = 0; i < rank; i++) count *= shape[i];
    return count;
}

/* A safetensors file of this header, with as many zero bytes as it asks for. */
static const char *write_safetensors(const char *name, const char *header) {
    size_t length = strlen(header), size = 0;
    json_t *object = json_loads(header, 0, NULL), *tensor;
    const char *key;
    json_object_foreach(object, key, tensor) {
        size_t end = (size_t)json_integer_value(json_array_get(json_object_get(tensor, "data_offsets"), 1));
        if (end > size) size = end;
    }
    json_decref(object);
    uint8_t *bytes = calloc(8 + length + size, 1);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    const char *path = nib_write(name, bytes, 8 + length + size);
    free(bytes);
    return path;
}

static void four_bit_safetensors_count_values(void) { /* file-format-01 */
    struct nib_error error;
    struct nib_file *file;
    struct nib_tensor_info info;
    size_t at;
    json_t *one = find_case("file-format-01");
    char *header = json_dumps(input_of(one, "header"), JSON_COMPACT);
    const char *path = write_safetensors("case01", header);
    free(header);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    NIB_OK_OR_FAIL(nib_file_find(file, "w", &at, &error), error);
    nib_file_tensor(file, at, &info);
    CU_ASSERT_EQUAL(product(info.shape, info.rank), (uint64_t)json_integer_value(expected_of(one, "w_values")));
    CU_ASSERT_EQUAL(info.bytes, (uint64_t)json_integer_value(expected_of(one, "w_bytes")));
    NIB_OK_OR_FAIL(nib_file_find(file, "s", &at, &error), error);
    nib_file_tensor(file, at, &info);
    CU_ASSERT_EQUAL(info.bytes, (uint64_t)json_integer_value(expected_of(one, "s_bytes")));
    nib_file_close(file);
}

static size_t bytes_of(json_t *list, uint8_t *out) {
    size_t i;
    json_t *text;
    json_array_foreach(list, i, text) out[i] = (uint8_t)strtoul(json_string_value(text), NULL, 16);
    return json_array_size(list);
}

static void check_values(json_t *wanted, const float *values, size_t count) {
    CU_ASSERT_EQUAL(json_array_size(wanted), count);
    for (size_t i = 0; i < count; i++)
        NIB_CHECKF((double)values[i] == json_number_value(json_array_get(wanted, i)), "value %zu is %g", i,
                   (double)values[i]);
}

static void npy_of_custom_types_needs_the_type_said(void) { /* file-format-03 */
    struct nib_error error;
    struct nib_file *file;
    struct nib_view view;
    struct nib_decoder decoder;
    json_t *one = find_case("file-format-03");
    char bytes[256] = "\x93NUMPY\1\0\0\0";
    int length = snprintf(bytes + 10, 128, "{'descr': '%s', 'fortran_order': False, 'shape': (4,), }\n",
                          json_string_value(input_of(one, "npy_descr")));
    bytes[8] = (char)length;
    size_t count = bytes_of(input_of(one, "bytes"), (uint8_t *)bytes + 10 + length);
    const char *path = nib_write("case03.npy", bytes, 10 + (size_t)length + count);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    nib_expect_error(nib_file_view(file, 0, false, &view, &error), NIB_EINVAL, &error, "case03",
                     "--dtype and --packed or --unpacked", "type unsaid");
    nib_expect_error(nib_decoder_open("e2m1", NIB_PACKING_UNSAID, &decoder, &error), NIB_EINVAL, &error, NULL, "--packed",
                     "packing unsaid");
    const void *data;
    uint64_t size;
    float values[8];
    NIB_OK_OR_FAIL(nib_file_bytes(file, 0, &data, &size, &error), error);
    NIB_OK_OR_FAIL(nib_decoder_open("e2m1", NIB_UNPACKED, &decoder, &error), error);
    NIB_OK_OR_FAIL(nib_decode(&decoder, data, 0, size, NULL, values, &error), error);
    check_values(expected_of(one, "values"), values, (size_t)size);
    nib_decoder_close(&decoder);
    nib_file_close(file);
}

static void hdf5_keeps_one_four_bit_value_a_byte(void) { /* file-format-05 */
    struct nib_error error;
    struct nib_file *file;
    struct nib_decoder decoder;
    const void *data;
    uint64_t size;
    float values[8];
    uint8_t bytes[8];
    json_t *one = find_case("file-format-05");
    hsize_t count = bytes_of(json_object_get(input_of(one, "dataset"), "bytes"), bytes);
    const char *path = nib_temporary("case05.h5");
    hid_t type = H5Tcopy(H5T_IEEE_F32LE); /* sign 1, exponent 2, mantissa 1 in a byte, as the library defines F4E2M1 */
    CU_ASSERT(H5Tset_fields(type, 3, 1, 2, 0, 1) >= 0 && H5Tset_precision(type, 4) >= 0 && H5Tset_size(type, 1) >= 0 &&
              H5Tset_ebias(type, 1) >= 0);
    hid_t id = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, &count, NULL);
    hid_t dataset = H5Dcreate2(id, "codes", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CU_ASSERT(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Fclose(id);
    H5Tclose(type);
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    NIB_OK_OR_FAIL(nib_file_bytes(file, 0, &data, &size, &error), error);
    CU_ASSERT_EQUAL(size, count);
    NIB_OK_OR_FAIL(nib_decoder_open("e2m1", NIB_UNPACKED, &decoder, &error), error);
    NIB_OK_OR_FAIL(nib_decode(&decoder, data, 0, size, NULL, values, &error), error);
    check_values(expected_of(one, "values"), values, (size_t)size);
    nib_decoder_close(&decoder);
    nib_file_close(file);
}

static void packed_storage_holds_twice_the_values(void) { /* file-format-07 */
    json_t *one = find_case("file-format-07"), *stored = input_of(one, "storage_shape");
    struct nib_entry entry = {.rank = (unsigned)json_array_size(stored)};
    uint64_t shape[NIB_ENTRY_RANK];
    for (unsigned i = 0; i < entry.rank; i++) entry.shape[i] = (uint64_t)json_integer_value(json_array_get(stored, i));
    CU_ASSERT(nib_unpacked_shape(&entry, shape));
    for (unsigned i = 0; i < entry.rank; i++)
        CU_ASSERT_EQUAL(shape[i], (uint64_t)json_integer_value(json_array_get(expected_of(one, "logical_shape"), i)));
    CU_ASSERT_EQUAL(product(shape, entry.rank), (uint64_t)json_integer_value(expected_of(one, "values")));
}

static void decoders_refuse_what_cannot_be_meant(void) {
    struct nib_error error;
    struct nib_decoder decoder;
    float values[2];
    const uint8_t packed[] = {0x21, 0xf0}, scales[] = {0x38, 0x7e};
    NIB_OK_OR_FAIL(nib_decoder_open("e2m1", NIB_UNPACKED, &decoder, &error), error);
    nib_expect_error(nib_decode(&decoder, packed, 0, 2, NULL, values, &error), NIB_EINCONSISTENT, &error, NULL, "0x21",
                     "packed data read as unpacked");
    nib_decoder_close(&decoder);
    NIB_OK_OR_FAIL(nib_decoder_open("e2m1", NIB_PACKED, &decoder, &error), error);
    NIB_OK_OR_FAIL(nib_decode(&decoder, packed, 1, 2, NULL, values, &error), error);
    CU_ASSERT(values[0] == 1.0f && values[1] == 0.0f);
    nib_decoder_close(&decoder);
    NIB_OK_OR_FAIL(nib_decoder_open("e4m3", NIB_PACKING_UNSAID, &decoder, &error), error);
    NIB_OK_OR_FAIL(nib_decode(&decoder, scales, 0, 2, NULL, values, &error), error);
    CU_ASSERT(values[0] == 1.0f && values[1] == 448.0f);
    nib_decoder_close(&decoder);
    nib_expect_error(nib_decoder_open("fp32", NIB_UNPACKED, &decoder, &error), NIB_EINVAL, &error, NULL, "32 bits", "fp32");
    nib_expect_error(nib_decoder_open("e9m9", NIB_UNPACKED, &decoder, &error), NIB_ENOTFOUND, &error, NULL, "e9m9", "e9m9");
}

/* Layouts as the projects write them (named with their commits in the comments of the table below). */
static void checkpoint_conventions_are_recognised(void) {
    static const struct {
        const char *header, *convention, *name, *scale_format, *problem, *note;
        unsigned block;
        uint64_t rows, cols;
    } checks[] = {
        /* compressed-tensors ac8e2ba8 */
        {"{\"q.weight_packed\":{\"dtype\":\"U8\",\"shape\":[4,32],\"data_offsets\":[0,128]},"
         "\"q.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,4],\"data_offsets\":[128,144]},"
         "\"q.weight_global_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[144,148]}}",
         "compressed-tensors nvfp4-pack-quantized", "q", "e4m3", "", "", 16, 4, 64},
        {"{\"q.weight_packed\":{\"dtype\":\"U8\",\"shape\":[4,32],\"data_offsets\":[0,128]},"
         "\"q.weight_scale\":{\"dtype\":\"U8\",\"shape\":[4,2],\"data_offsets\":[128,136]}}",
         "compressed-tensors mxfp4-pack-quantized", "q", "e8m0", "", "", 32, 4, 64},
        /* ModelOpt a2fbac7ba: the packed tensor has the name of the dense one */
        {"{\"q.weight\":{\"dtype\":\"U8\",\"shape\":[4,32],\"data_offsets\":[0,128]},"
         "\"q.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,4],\"data_offsets\":[128,144]},"
         "\"q.weight_scale_2\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[144,148]},"
         "\"q.input_scale\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[148,152]}}",
         "ModelOpt NVFP4", "q", "e4m3", "", "", 16, 4, 64},
        /* TransformerEngine d0067d0da: scales padded to 128 x 4 */
        {"{\"w._rowwise_data\":{\"dtype\":\"U8\",\"shape\":[2,32],\"data_offsets\":[0,64]},"
         "\"w._rowwise_scale_inv\":{\"dtype\":\"U8\",\"shape\":[128,4],\"data_offsets\":[64,576]},"
         "\"w._amax_rowwise\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[576,580]}}",
         "TransformerEngine NVFP4", "w", "e4m3", "", "padded", 16, 2, 64},
        /* torchao 36027d82d */
        {"{\"w.qdata\":{\"dtype\":\"U8\",\"shape\":[2,32],\"data_offsets\":[0,64]},"
         "\"w.scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,4],\"data_offsets\":[64,72]},"
         "\"w.per_tensor_scale\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[72,76]}}",
         "torchao NVFP4", "w", "e4m3", "", "", 16, 2, 64},
        {"{\"w:qdata\":{\"dtype\":\"F4\",\"shape\":[2,64],\"data_offsets\":[0,64]},"
         "\"w:scale\":{\"dtype\":\"F8_E8M0\",\"shape\":[2,2],\"data_offsets\":[64,68]}}",
         "torchao MXFP4", "w", "e8m0", "", "", 32, 2, 64},
        /* gpt-oss: groups of 16 bytes as a dimension of their own */
        {"{\"mlp1_weight_blocks\":{\"dtype\":\"U8\",\"shape\":[3,2,16],\"data_offsets\":[0,96]},"
         "\"mlp1_weight_scales\":{\"dtype\":\"U8\",\"shape\":[3,2],\"data_offsets\":[96,102]}}",
         "gpt-oss MXFP4", "mlp1_weight", "e8m0", "", "", 32, 3, 64},
        /* scales that do not fit */
        {"{\"q.weight_packed\":{\"dtype\":\"U8\",\"shape\":[4,32],\"data_offsets\":[0,128]},"
         "\"q.weight_scale\":{\"dtype\":\"U8\",\"shape\":[4,4],\"data_offsets\":[128,144]}}",
         "compressed-tensors mxfp4-pack-quantized", "q", "e8m0", "expected 4 x 2 for blocks of 32", "", 32, 4, 64},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        struct nib_error error;
        struct nib_file *file;
        struct nib_stored_weight *weights;
        size_t count;
        const char *path = write_safetensors("weights", checks[i].header);
        NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
        NIB_OK_OR_FAIL(nib_stored_weights_find(file, &weights, &count, &error), error);
        NIB_CHECKF(count == 1, "%s: %zu weights", checks[i].convention, count);
        if (count == 1) {
            NIB_CHECKF(strcmp(weights[0].convention, checks[i].convention) == 0, "%s, expected %s", weights[0].convention,
                       checks[i].convention);
            NIB_CHECKF(strcmp(weights[0].name, checks[i].name) == 0, "name %s", weights[0].name);
            CU_ASSERT_STRING_EQUAL(weights[0].scale_format, checks[i].scale_format);
            CU_ASSERT_EQUAL(weights[0].block, checks[i].block);
            NIB_CHECKF(weights[0].rank == 2 && weights[0].shape[0] == checks[i].rows &&
                           weights[0].shape[1] == checks[i].cols, "%s: shape", checks[i].convention);
            NIB_CHECKF((checks[i].problem[0] == '\0') == (weights[0].problem[0] == '\0') &&
                           strstr(weights[0].problem, checks[i].problem) != NULL, "%s: problem \"%s\"",
                       checks[i].convention, weights[0].problem);
            NIB_CHECKF(strstr(weights[0].note, checks[i].note) != NULL, "%s: note \"%s\"", checks[i].convention,
                       weights[0].note);
        }
        nib_stored_weights_free(weights, count);
        nib_file_close(file);
    }
}

/* What lacks a part, or has it in another type, is not taken for a weight. */
static void incomplete_weights_follow_no_convention(void) {
    static const char *const headers[] = {
        "{\"q.weight\":{\"dtype\":\"U8\",\"shape\":[4,32],\"data_offsets\":[0,128]},"
        "\"q.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,4],\"data_offsets\":[128,144]}}",
        "{\"q.weight_packed\":{\"dtype\":\"U8\",\"shape\":[4,32],\"data_offsets\":[0,128]}}",
        "{\"q.weight_packed\":{\"dtype\":\"I8\",\"shape\":[4,32],\"data_offsets\":[0,128]},"
        "\"q.weight_scale\":{\"dtype\":\"U8\",\"shape\":[4,2],\"data_offsets\":[128,136]}}",
        "{\"q.weight\":{\"dtype\":\"BF16\",\"shape\":[4,32],\"data_offsets\":[0,256]},"
        "\"q.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,4],\"data_offsets\":[256,272]},"
        "\"q.weight_scale_2\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[272,276]}}"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct nib_error error;
        struct nib_file *file;
        struct nib_stored_weight *weights;
        size_t count;
        NIB_OK_OR_FAIL(nib_file_open(write_safetensors("incomplete", headers[i]), &file, &error), error);
        NIB_OK_OR_FAIL(nib_stored_weights_find(file, &weights, &count, &error), error);
        NIB_CHECKF(count == 0, "%s is taken for %s", headers[i], weights[0].convention);
        nib_stored_weights_free(weights, count);
        nib_file_close(file);
    }
}

static void dense_models_follow_no_convention(void) {
    struct nib_error error;
    struct nib_file *file;
    struct nib_stored_weight *weights;
    size_t count;
    NIB_OK_OR_FAIL(nib_file_open(NIB_DATA_DIR "/bytelm-8m.safetensors", &file, &error), error);
    NIB_OK_OR_FAIL(nib_stored_weights_find(file, &weights, &count, &error), error);
    CU_ASSERT(nib_file_count(file) == 93 && count == 0);
    nib_stored_weights_free(weights, count);
    nib_file_close(file);
}

static void nothing_is_left_behind(void) {
    json_decref(cases);
    CU_ASSERT(nib_remove_folder() > 0);
}

NIB_TEST_MAIN("file cases", {"four-bit safetensors count values", four_bit_safetensors_count_values},
              {"npy of custom types needs the type said", npy_of_custom_types_needs_the_type_said},
              {"HDF5 keeps one four-bit value a byte", hdf5_keeps_one_four_bit_value_a_byte},
              {"packed storage holds twice the values", packed_storage_holds_twice_the_values},
              {"decoders refuse what cannot be meant", decoders_refuse_what_cannot_be_meant},
              {"checkpoint conventions are recognised", checkpoint_conventions_are_recognised},
              {"incomplete weights follow no convention", incomplete_weights_follow_no_convention},
              {"dense models follow no convention", dense_models_follow_no_convention},
              {"nothing is left behind", nothing_is_left_behind})
