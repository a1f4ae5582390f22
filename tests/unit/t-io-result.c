/* Result files: every axis has its scale, strings are UTF-8, nothing half-written stays behind. The Python part opens
 * the file with the readers that users have. */
#include "io/hdf5_out.h"
#include "nib_files.h"

#include <hdf5.h>
#include <hdf5_hl.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

static struct nib_table *sample_table(size_t rows) {
    static const struct nib_column columns[] = {
        {"tensor", "tensor", "", "tensor name", NIB_COLUMN_TEXT, 0},
        {"count", "count", "1", "elements", NIB_COLUMN_INTEGER, 0},
        {"sqnr_db", "SQNR dB", "dB", "signal to quantization noise", NIB_COLUMN_REAL, 2}};
    static const char *const names[] = {"layers.0.w", "\xc3\xa4\xe2\x82\xac", "broken\xff\xc0"};
    static const double reals[] = {20.5, -0.0, NAN};
    struct nib_table *table = NULL;
    if (nib_table_new("bias", columns, 3, &table, NULL) != NIB_OK) abort();
    for (size_t i = 0; i < rows; i++) {
        size_t row = nib_table_row(table);
        nib_table_set_text(table, row, 0, names[i]);
        nib_table_set_integer(table, row, 1, (int64_t)i == 2 ? INT64_MIN : (int64_t)i);
        nib_table_set_real(table, row, 2, reals[i]);
    }
    return table;
}

static struct nib_provenance *sample_provenance(void) {
    struct nib_provenance *provenance = NULL;
    char *argv[] = {(char[]){"nibble"}, (char[]){"bias"}, (char[]){"it's here.npy"}, (char[]){"--json"}};
    if (nib_provenance_new(&provenance, NULL) != NIB_OK) abort();
    nib_provenance_set_command(provenance, 4, argv);
    nib_provenance_set_parallel(provenance, 2, 1);
    nib_provenance_set_isa(provenance, "avx2");
    nib_provenance_add_seed(provenance, "rotation", UINT64_MAX);
    nib_provenance_add_format(provenance, "elements/e2m1", "name: e2m1\n", "00ff");
    nib_provenance_add_format(provenance, "elements/e2m1", "name: e2m1\n", "00ff");
    return provenance;
}

/* The file that the Python test reads as well. */
static enum nib_status write_sample(const char *path, struct nib_error *error) {
    static const char *const quantizers[] = {"te-nvfp4", "ocp-mxfp4"};
    static const double levels[] = {0, 0.5, 1};
    static const double bias[] = {1, 2, 3, 4, 5, 6};
    static const float values[] = {0.5f, -2};
    static const uint8_t codes[] = {0x12, 0xf0};
    struct nib_result *result;
    struct nib_provenance *provenance = sample_provenance();
    struct nib_table *table = sample_table(3), *empty = sample_table(0);
    enum nib_status status = nib_provenance_add_input(provenance, nib_write("input", "abc", 3), error);
    if (status == NIB_OK) status = nib_result_open(path, "a sample", &result, error);
    if (status == NIB_OK) {
        status = nib_result_table(result, "bias", table, error);
        if (status == NIB_OK) status = nib_result_table(result, "empty", empty, error);
        if (status == NIB_OK)
            status = nib_result_text_scale(result, "levels", "quantizer", "quantizer", quantizers, 2, error);
        if (status == NIB_OK)
            status = nib_result_real_scale(result, "levels", "level", "1", "level of the grid", levels, 3, error);
        if (status == NIB_OK)
            status = nib_result_array(result, &(struct nib_result_array){.group = "levels", .name = "bias", .units = "1",
                                      .long_name = "mean error by level", .type = NIB_RESULT_F64, .rank = 2,
                                      .scales = {"quantizer", "level"}, .data = bias}, error);
        if (status == NIB_OK)
            status = nib_result_array(result, &(struct nib_result_array){.group = "levels", .name = "value",
                                      .type = NIB_RESULT_F32, .rank = 1, .scales = {"quantizer"}, .data = values}, error);
        if (status == NIB_OK) status = nib_result_index_scale(result, "codes/w", "byte", "packed byte", 2, error);
        if (status == NIB_OK)
            status = nib_result_array(result, &(struct nib_result_array){.group = "codes/w", .name = "packed",
                                      .type = NIB_RESULT_U8, .rank = 1, .scales = {"byte"}, .data = codes}, error);
        if (status == NIB_OK)
            status = nib_result_text_attribute(result, "codes/w", "packed", "packing", "low-nibble-first", error);
        if (status == NIB_OK) status = nib_result_integer_attribute(result, "codes/w", "packed", "cols", 4, error);
        if (status == NIB_OK)
            status = nib_result_real_attribute(result, "codes/w", NULL, "tensor_scale_decode", 0.25, error);
        if (status == NIB_OK)
            status = nib_result_commit(result, provenance, error);
        else
            nib_result_abandon(result);
    }
    nib_provenance_free(provenance);
    nib_table_free(table);
    nib_table_free(empty);
    return status;
}

/* Every numeric dataset that is no scale itself has a scale on every axis. */
static herr_t check_scales(hid_t file, const char *name, const H5O_info_t *about, void *count) {
    if (about->type == H5O_TYPE_DATASET) {
        hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
        int rank = H5Sget_simple_extent_ndims(space);
        if (H5DSis_scale(dataset) == 0)
            for (int i = 0; i < rank; i++)
                NIB_CHECKF(H5DSget_num_scales(dataset, (unsigned)i) == 1, "%s: axis %d has no scale", name, i);
        NIB_CHECKF(strchr(name, '/') != NULL, "dataset %s lies in the root group", name);
        NIB_CHECKF(H5Aexists(dataset, "DIMENSION_LABELS") == 0, "%s has DIMENSION_LABELS", name);
        ++*(int *)count;
        H5Sclose(space);
        H5Dclose(dataset);
    }
    return 0;
}

static void every_axis_of_every_dataset_has_its_scale(void) {
    struct nib_error error;
    int datasets = 0;
    const char *path = nib_temporary("sample.h5");
    NIB_OK_OR_FAIL(write_sample(path, &error), error);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    CU_ASSERT_FATAL(file >= 0);
    CU_ASSERT(H5Ovisit2(file, H5_INDEX_CRT_ORDER, H5_ITER_INC, check_scales, &datasets, H5O_INFO_BASIC) >= 0);
    CU_ASSERT(datasets > 20);
    double bias[6];
    CU_ASSERT(H5LTread_dataset_double(file, "/levels/bias", bias) >= 0 && bias[0] == 1 && bias[5] == 6);
    char first[16] = "";
    H5Lget_name_by_idx(file, "/", H5_INDEX_CRT_ORDER, H5_ITER_INC, 0, first, sizeof first, H5P_DEFAULT);
    CU_ASSERT_STRING_EQUAL(first, "bias"); /* the order of creation is tracked */
    H5Fclose(file);
}

static void equal_results_are_equal_files(void) {
    struct nib_error error;
    static char bytes[2][1 << 20];
    size_t sizes[2];
    setenv("SOURCE_DATE_EPOCH", "1000000000", 1);
    for (int i = 0; i < 2; i++) {
        const char *path = nib_temporary("again.h5");
        NIB_OK_OR_FAIL(write_sample(path, &error), error);
        FILE *stream = fopen(path, "rb");
        sizes[i] = fread(bytes[i], 1, sizeof bytes[i], stream);
        fclose(stream);
    }
    unsetenv("SOURCE_DATE_EPOCH");
    NIB_CHECKF(sizes[0] == sizes[1] && sizes[0] < sizeof bytes[0], "%zu and %zu bytes", sizes[0], sizes[1]);
    size_t at = 0;
    while (at < sizes[0] && bytes[0][at] == bytes[1][at]) at++;
    NIB_CHECKF(at == sizes[0], "byte %zu of %zu differs", at, sizes[0]);
}

static unsigned files_in(const char *folder) {
    unsigned count = 0;
    DIR *stream = opendir(folder);
    for (struct dirent *item = readdir(stream); item != NULL; item = readdir(stream)) count += item->d_name[0] != '.';
    closedir(stream);
    return count;
}

static void unwritable_places_are_refused_at_once(void) {
    struct nib_error error;
    struct nib_result *result = NULL;
    nib_expect_error(nib_result_open(nib_temporary("no/such/folder.h5"), "", &result, &error), NIB_EIO, &error, "folder.h5",
                     "No such file", "missing folder");
    nib_expect_error(nib_result_open(nib_folder, "", &result, &error), NIB_EIO, &error, nib_folder, "directory",
                     "a folder as target");
    nib_expect_error(nib_result_open("/dev/null", "", &result, &error), NIB_EIO, &error, "/dev/null", "regular",
                     "a device as target");
    nib_write("plain", "x", 1);
    nib_expect_error(nib_result_open(nib_temporary("plain/a.h5"), "", &result, &error), NIB_EIO, &error, "plain/a.h5",
                     "", "a file as folder");
    nib_expect_error(nib_result_open("", "", &result, &error), NIB_EINVAL, &error, NULL, "empty", "empty name");
    if (access("/proc/1", W_OK) != 0)
        nib_expect_error(nib_result_open("/proc/1/a.h5", "", &result, &error), NIB_EIO, &error, "a.h5", "cannot write",
                         "read-only folder");
    CU_ASSERT_PTR_NULL(result);
}

/* A limit on the file size stands in for a full disk: the write comes back short, then fails. */
static void a_full_disk_leaves_the_old_file_alone(void) {
    struct nib_error error;
    struct rlimit saved, small;
    char old[8] = "";
    const char *path = nib_write("kept.h5", "old", 3);
    nib_write("input", "abc", 3); /* which the sample writes for itself */
    unsigned before = files_in(nib_folder);
    getrlimit(RLIMIT_FSIZE, &saved);
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){4096, saved.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    enum nib_status status = write_sample(path, &error);
    setrlimit(RLIMIT_FSIZE, &saved);
    signal(SIGXFSZ, SIG_DFL);
    nib_expect_error(status, NIB_EIO, &error, "kept.h5", "cannot write: File too large", "full disk");
    FILE *stream = fopen(path, "rb");
    CU_ASSERT(fread(old, 1, sizeof old, stream) == 3 && strcmp(old, "old") == 0);
    fclose(stream);
    CU_ASSERT_EQUAL(files_in(nib_folder), before);
}

static void a_target_that_turns_into_a_folder_is_an_error(void) {
    struct nib_error error;
    struct nib_result *result;
    struct nib_provenance *provenance = sample_provenance();
    const char *path = nib_temporary("turns.h5");
    NIB_OK_OR_FAIL(nib_result_open(path, "", &result, &error), error);
    CU_ASSERT(mkdir(path, 0777) == 0);
    unsigned before = files_in(nib_folder);
    nib_expect_error(nib_result_commit(result, provenance, &error), NIB_EIO, &error, "turns.h5", "cannot rename",
                     "folder in the way");
    CU_ASSERT_EQUAL(files_in(nib_folder), before);
    rmdir(path);
    nib_provenance_free(provenance);
}

static void wrong_arrays_are_refused(void) {
    struct nib_error error;
    struct nib_result *result;
    const double data[2] = {1, 2};
    const char *path = nib_temporary("refused.h5");
    NIB_OK_OR_FAIL(nib_result_open(path, "", &result, &error), error);
    struct nib_result_array array = {.group = "g", .name = "x", .type = NIB_RESULT_F64, .rank = 1, .scales = {"level"},
                                     .data = data};
    nib_expect_error(nib_result_array(result, &array, &error), NIB_EINVAL, &error, "refused.h5", "no dimension scale",
                     "scale missing");
    NIB_OK_OR_FAIL(nib_result_index_scale(result, "g", "level", "", 2, &error), error);
    NIB_OK_OR_FAIL(nib_result_array(result, &array, &error), error);
    nib_expect_error(nib_result_array(result, &array, &error), NIB_EIO, &error, "refused.h5", "HDF5: x", "name taken");
    nib_result_abandon(result);
    CU_ASSERT(access(path, F_OK) != 0);
}

static void python_readers_open_it(void) {
    struct nib_error error;
    char command[2048];
    const char *path = nib_temporary("sample.h5");
    NIB_OK_OR_FAIL(write_sample(path, &error), error);
    snprintf(command, sizeof command, "'%s/tests/unit/read-result.sh' '%s'", NIB_SOURCE_DIR, path);
    int code = system(command);
    if (WEXITSTATUS(code) == 77)
        fprintf(stderr, "\n  skipped: no Python with h5py, xarray, h5netcdf and netCDF4\n");
    else
        NIB_CHECKF(code == 0, "the Python readers disagree");
}

static void nothing_is_left_behind(void) { CU_ASSERT(nib_remove_folder() > 0); }

NIB_TEST_MAIN("results", {"every axis of every dataset has its scale", every_axis_of_every_dataset_has_its_scale},
              {"equal results are equal files", equal_results_are_equal_files},
              {"unwritable places are refused at once", unwritable_places_are_refused_at_once},
              {"a full disk leaves the old file alone", a_full_disk_leaves_the_old_file_alone},
              {"a target that turns into a folder is an error", a_target_that_turns_into_a_folder_is_an_error},
              {"wrong arrays are refused", wrong_arrays_are_refused},
              {"Python readers open it", python_readers_open_it},
              {"nothing is left behind", nothing_is_left_behind})
