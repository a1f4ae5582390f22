/* What the program says when there is no plug-in, none that fits, or no device; and that the check sees what is wrong. */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/loader.h"

static enum nib_status open_with(const char *plugin, const char *fault, int index, struct nib_error *error) {
    struct nib_gpu gpu;
    setenv("NIBBLE_GPU_PLUGIN", plugin, 1);
    if (fault != NULL)
        setenv("NIBBLE_FAKE_GPU", fault, 1);
    else
        unsetenv("NIBBLE_FAKE_GPU");
    memset(error, 0, sizeof *error);
    enum nib_status status = nib_gpu_open(index, &gpu, error);
    if (status == NIB_OK) nib_gpu_close(&gpu);
    return status;
}

static bool says(const struct nib_error *error, const char *part) {
    char line[1024];
    nib_error_format(error, line, sizeof line);
    if (strstr(line, part) != NULL && strchr(line, '\n') == NULL) return true;
    printf("\n  \"%s\" does not say \"%s\"\n", line, part);
    return false;
}

static void a_good_plugin_opens(void) {
    struct nib_error error;
    CU_ASSERT_EQUAL(open_with(NIB_FAKE_GPU, NULL, 0, &error), NIB_OK);
}

static void a_missing_plugin_is_unavailable(void) {
    struct nib_error error;
    struct nib_gpu gpu;
    CU_ASSERT_EQUAL(open_with("/nonexistent/plugin.so", NULL, 0, &error), NIB_EUNAVAILABLE);
    CU_ASSERT(says(&error, "/nonexistent/plugin.so"));
    unsetenv("NIBBLE_GPU_PLUGIN"); /* a test program stands beside no plug-in */
    memset(&error, 0, sizeof error);
    if (nib_gpu_open(0, &gpu, &error) == NIB_OK)
        nib_gpu_close(&gpu);
    else
        CU_ASSERT_EQUAL(error.status, NIB_EUNAVAILABLE);
}

static void a_file_that_is_no_library_is_unavailable(void) {
    struct nib_error error;
    CU_ASSERT_EQUAL(open_with("/dev/null", NULL, 0, &error), NIB_EUNAVAILABLE);
    CU_ASSERT(says(&error, "/dev/null"));
}

static void a_library_that_is_no_plugin_is_named(void) {
    struct nib_error error;
    CU_ASSERT_EQUAL(open_with("libm.so.6", NULL, 0, &error), NIB_EINCONSISTENT);
    CU_ASSERT(says(&error, "libm.so.6"));
    CU_ASSERT(says(&error, "no nibble plug-in"));
}

static void another_interface_or_version_is_refused(void) {
    struct nib_error error;
    CU_ASSERT_EQUAL(open_with(NIB_FAKE_GPU, "abi", 0, &error), NIB_EINCONSISTENT);
    CU_ASSERT(says(&error, "interface 1"));
    CU_ASSERT_EQUAL(open_with(NIB_FAKE_GPU, "version", 0, &error), NIB_EINCONSISTENT);
    CU_ASSERT(says(&error, "0.0.0-other"));
}

static void a_missing_device_is_unavailable(void) {
    struct nib_error error;
    CU_ASSERT_EQUAL(open_with(NIB_FAKE_GPU, "none", 0, &error), NIB_EUNAVAILABLE);
    CU_ASSERT(says(&error, "this machine has 0"));
    CU_ASSERT_EQUAL(open_with(NIB_FAKE_GPU, NULL, 3, &error), NIB_EUNAVAILABLE);
    CU_ASSERT(says(&error, "device 3 does not exist"));
}

/* Runs the program; returns its exit code, and its output in `out`. */
static int run(const char *plugin, const char *fault, const char *arguments, char *out, size_t size) {
    char command[1024];
    snprintf(command, sizeof command, "NIBBLE_GPU_PLUGIN='%s' NIBBLE_FAKE_GPU='%s' OMP_NUM_THREADS=1 '%s' %s 2>&1", plugin, fault,
             getenv("NIBBLE"), arguments);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return -1;
    size_t used = fread(out, 1, size - 1, pipe);
    out[used] = '\0';
    while (fgetc(pipe) != EOF) {}
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char output[1 << 20];

static void the_program_gives_exit_code_4_without_a_device(void) {
    static const char *const actions[] = {"gpu info", "gpu info --json", "gpu check", "gpu bench"};
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(run("/nonexistent/plugin.so", "", actions[i], output, sizeof output), 4);
        CU_ASSERT_EQUAL(run(NIB_FAKE_GPU, "none", actions[i], output, sizeof output), 4);
        CU_ASSERT_PTR_NOT_NULL(strstr(output, "nibble: GPU: device 0 does not exist"));
    }
    CU_ASSERT_EQUAL(run(NIB_FAKE_GPU, "abi", "gpu info", output, sizeof output), 3);
    CU_ASSERT_EQUAL(run(NIB_FAKE_GPU, "", "gpu nonsense", output, sizeof output), 2);
    CU_ASSERT_EQUAL(run(NIB_FAKE_GPU, "", "gpu info extra", output, sizeof output), 2);
}

static void the_check_agrees_with_itself(void) {
    int code = run(NIB_FAKE_GPU, "", "gpu check --small", output, sizeof output);
    CU_ASSERT_EQUAL(code, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "0 differences in"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "not run on this device"));
    CU_ASSERT_PTR_NULL(strstr(output, "DIFFER"));
    if (code != 0) printf("\n%.4000s\n", output);
}

static void the_check_notices_one_wrong_result(void) {
    static const char *const faults[] = {"code", "scale", "value", "amax", "product"};
    static const char *const stages[] = {"code of (", "block scale (0, 0)", "value of (", "tensor amax: device", "output (0, 0) of tile 0"};
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(run(NIB_FAKE_GPU, faults[i], "gpu check --small", output, sizeof output), 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(output, "DIFFER"));
        CU_ASSERT_PTR_NOT_NULL(strstr(output, stages[i]));
    }
}

static void a_trapping_kernel_is_a_failure(void) {
    CU_ASSERT_EQUAL(run(NIB_FAKE_GPU, "trap", "gpu check --small", output, sizeof output), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "FAILED"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output, "quantization: an illegal memory access was encountered; nothing it returned was used"));
}

int main(void) {
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("gpu loader", NULL, NULL);
    CU_ADD_TEST(suite, a_good_plugin_opens);
    CU_ADD_TEST(suite, a_missing_plugin_is_unavailable);
    CU_ADD_TEST(suite, a_file_that_is_no_library_is_unavailable);
    CU_ADD_TEST(suite, a_library_that_is_no_plugin_is_named);
    CU_ADD_TEST(suite, another_interface_or_version_is_refused);
    CU_ADD_TEST(suite, a_missing_device_is_unavailable);
    CU_ADD_TEST(suite, the_program_gives_exit_code_4_without_a_device);
    CU_ADD_TEST(suite, the_check_agrees_with_itself);
    CU_ADD_TEST(suite, the_check_notices_one_wrong_result);
    CU_ADD_TEST(suite, a_trapping_kernel_is_a_failure);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures > 0;
}
