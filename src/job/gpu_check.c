#include "job/gpu_check.h"

#include <nibble/tensor.h>
#include <nibble/unit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "format/quantizer.h"
#include "job/gpu_compare.h"
#include "job/gpu_inputs.h"

/* Both reports of one case, whose calls ended with `status`: quantize, and the standalone dequantize kernel. */
static enum nib_status add(struct nib_table *report, struct nib_gpu_case what, const struct nib_gpu_counts *quantized,
                           const struct nib_gpu_counts *dequantized, enum nib_status status, struct nib_error *error) {
    what.part = "quantize";
    if (status != NIB_OK) return nib_gpu_report_failure(report, &what, status, error);
    status = nib_gpu_report_add(report, &what, quantized, error);
    if (status != NIB_OK || dequantized == NULL || dequantized->calls == 0) return status;
    what.part = "dequantize";
    return nib_gpu_report_add(report, &what, dequantized, error);
}

/* One input set through one quantizer in one direction, `repeats` seeds. */
static enum nib_status run_set(const struct nib_gpu_check_request *request, struct nib_table *report,
                               const struct nib_gpu_comparison *how, const char *name, enum nib_gpu_inputs set,
                               enum nib_dtype dtype, size_t rows, size_t cols, struct nib_error *error) {
    struct nib_gpu_counts counts = {0}, back = {0};
    struct nib_gpu_tensor t;
    enum nib_status status = nib_gpu_inputs_make(set, dtype, rows, cols, request->seed * 977 + (uint64_t)set,
                                                 request->threads, how->quantizer, how->axis, &t, error);
    if (status != NIB_OK) return status;
    bool plain = how->turn->device.size <= 1;
    status = nib_gpu_compare_quantize(how, t.view, &counts, plain ? &back : NULL, error);
    nib_gpu_tensor_free(&t);
    return add(report,
               (struct nib_gpu_case){"", name, nib_axis_names[how->axis], nib_gpu_dtype_name(dtype), how->turn->name,
                                     nib_gpu_rounding_of(how->quantizer), nib_gpu_inputs_names[set]},
               &counts, &back, status, error);
}

/* Widths 1 to 33, and heights that leave partial blocks. */
static enum nib_status run_tails(const struct nib_gpu_check_request *request, struct nib_table *report,
                                 const struct nib_gpu_comparison *how, const char *name, enum nib_dtype dtype,
                                 struct nib_error *error) {
    struct nib_gpu_counts counts = {0}, back = {0};
    enum nib_status status = NIB_OK;
    for (size_t width = 1; width <= 33 && status == NIB_OK; width += request->small ? 8 : 1) {
        struct nib_gpu_tensor t;
        size_t other = 1 + width * 7 % 37;
        bool down = how->axis == NIB_ALONG_ROWS;
        status = nib_gpu_inputs_make(NIB_GPU_INPUTS_GAUSSIAN, dtype, down ? width : other, down ? other : width,
                                     request->seed + width, 1, how->quantizer, how->axis, &t, error);
        if (status != NIB_OK) break;
        status = nib_gpu_compare_quantize(how, t.view, &counts, &back, error);
        nib_gpu_tensor_free(&t);
    }
    return add(report,
               (struct nib_gpu_case){"", name, nib_axis_names[how->axis], nib_gpu_dtype_name(dtype), "",
                                     nib_gpu_rounding_of(how->quantizer), "tails 1..33"},
               &counts, &back, status, error);
}

/* More than a device holds at once: kernels that go over the matrix round by round meet a second round. */
enum { LARGE_ROWS = 4608, LARGE_COLS = 4128 };

/* Tensor amax supplied by the caller, sensible and not. */
static enum nib_status run_given(const struct nib_gpu_check_request *request, struct nib_table *report,
                                 struct nib_gpu_comparison how, const char *name, enum nib_dtype dtype,
                                 struct nib_error *error) {
    static const float amaxes[] = {4, 0.5f, 100, 2688, 0, 1e-44f, 1e-36f, 3e38f, 0x1.fffffep+127f};
    struct nib_gpu_counts counts = {0}, back = {0};
    struct nib_gpu_tensor t;
    enum nib_status status = nib_gpu_inputs_make(NIB_GPU_INPUTS_GAUSSIAN, dtype, 64, 96, request->seed, 1,
                                                 how.quantizer, how.axis, &t, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < sizeof amaxes / sizeof *amaxes && status == NIB_OK; i++) {
        how.has_tensor_amax = true;
        how.tensor_amax = amaxes[i];
        status = nib_gpu_compare_quantize(&how, t.view, &counts, &back, error);
    }
    nib_gpu_tensor_free(&t);
    return add(report,
               (struct nib_gpu_case){"", name, nib_axis_names[how.axis], nib_gpu_dtype_name(dtype), "",
                                     nib_gpu_rounding_of(how.quantizer), "amax given"},
               &counts, &back, status, error);
}

enum nib_status nib_gpu_check_quantize(const struct nib_gpu_check_request *request, struct nib_table *report,
                                       struct nib_error *error) {
    static const struct nib_gpu_turn none;
    struct nib_gpu_subjects subjects;
    enum nib_status status = nib_gpu_subjects_open(&subjects, error);
    if (status != NIB_OK) return status;
    /* Whole blocks both ways, which the fastest kernels serve; run_tails has the others. */
    size_t rows = request->small  ? 64
                  : request->full ? 1024
                                  : 256,
           cols = request->small  ? 80
                  : request->full ? 1504
                                  : 480;
    for (size_t s = 0; s < subjects.count && status == NIB_OK; s++) {
        bool lines = subjects.quantizer[s]->block->block_rows == 1;
        for (int a = 0; a < 2 && status == NIB_OK; a++)
            for (int d = 0; d < 3 && status == NIB_OK; d++) {
                struct nib_gpu_comparison how = {.gpu = request->gpu,
                                                 .quantizer = subjects.quantizer[s],
                                                 .turn = &none,
                                                 .axis = (enum nib_axis)a,
                                                 .threads = request->threads,
                                                 .seed = request->seed};
                enum nib_dtype dtype = (enum nib_dtype)d;
                bool down = dtype == NIB_BF16 && a == NIB_ALONG_ROWS && subjects.rotated[s], large = dtype == NIB_BF16;
                if (request->shared && lines && !down) continue;
                if (request->shared)
                    large = down && strcmp(subjects.name[s], "te-nvfp4") == 0;
                else if (!request->full)
                    large &= subjects.rotated[s] && !request->small;
                if (request->progress != NULL)
                    request->progress(request->context, subjects.name[s], s * 6 + (size_t)a * 3 + (size_t)d,
                                      subjects.count * 6);
                if (request->small && dtype == NIB_F16) continue;
                for (int set = 0; set < NIB_GPU_INPUTS_COUNT && status == NIB_OK; set += request->shared
                                                                                             ? NIB_GPU_INPUTS_COUNT
                                                                                         : request->small ? 3
                                                                                                          : 1)
                    status = run_set(request, report, &how, subjects.name[s], (enum nib_gpu_inputs)set, dtype, rows,
                                     cols, error);
                for (int set = 0; set < 2 && request->full && subjects.rotated[s] && status == NIB_OK; set++)
                    status = run_set(request, report, &how, subjects.name[s], (enum nib_gpu_inputs)set, dtype, 4096,
                                     4096 + 24, error);
                if (large && status == NIB_OK)
                    status = run_set(request, report, &how, subjects.name[s], NIB_GPU_INPUTS_GAUSSIAN, dtype,
                                     LARGE_ROWS, LARGE_COLS, error);
                if (request->shared) continue;
                if (status == NIB_OK) status = run_tails(request, report, &how, subjects.name[s], dtype, error);
                if (status == NIB_OK && strncmp(subjects.name[s], "te-", 3) == 0)
                    status = run_given(request, report, how, subjects.name[s], dtype, error);
            }
    }
    nib_gpu_subjects_close(&subjects);
    return status;
}

/* One rotation of one input type: standalone, then before each quantizer. */
static enum nib_status run_turn(const struct nib_gpu_check_request *request, struct nib_table *report,
                                const struct nib_gpu_subjects *subjects, const struct nib_gpu_turn *turn,
                                const struct nib_unit *unit, enum nib_dtype dtype, struct nib_error *error) {
    static const enum nib_gpu_inputs sets[] = {NIB_GPU_INPUTS_GAUSSIAN, NIB_GPU_INPUTS_T3,       NIB_GPU_INPUTS_SPREAD,
                                               NIB_GPU_INPUTS_NAN,      NIB_GPU_INPUTS_INFINITY, NIB_GPU_INPUTS_TINY,
                                               NIB_GPU_INPUTS_HUGE};
    size_t across = request->full ? 1024 : 512, along = request->full ? 1024 : 256; /* of the axis */
    if (request->small) across = 20;
    size_t set_count = request->small ? 1 : sizeof sets / sizeof *sets;
    const bool large = request->full && turn->device.size == 16 && turn->device.round_to_bf16 && dtype == NIB_BF16;
    enum nib_status status = NIB_OK;
    for (int a = 0; a < 2 && status == NIB_OK; a++)
        for (size_t i = 0; i < set_count + (large && a == NIB_ALONG_COLS) && status == NIB_OK; i++) {
            const size_t k = i < set_count ? i : 0;
            struct nib_gpu_tensor t;
            struct nib_gpu_counts counts = {0};
            size_t over = i < set_count ? across : LARGE_ROWS, down = i < set_count ? along : LARGE_COLS;
            size_t rows = a == NIB_ALONG_COLS ? over : down, cols = a == NIB_ALONG_COLS ? down : over;
            struct nib_gpu_comparison how = {.gpu = request->gpu, .turn = turn, .unit = unit, .axis = (enum nib_axis)a,
                                             .threads = request->threads, .seed = request->seed};
            status = nib_gpu_inputs_make(sets[k], dtype, rows, cols, request->seed * 31 + k, request->threads, NULL,
                                         how.axis, &t, error);
            if (status != NIB_OK) break;
            struct nib_gpu_case what = {"rotate",   "hadamard", nib_axis_names[how.axis],     nib_gpu_dtype_name(dtype),
                                        turn->name, "",         nib_gpu_inputs_names[sets[k]]};
            float *rotated = nib_alloc_raw(rows * cols, sizeof *rotated, "a rotated tensor", error);
            status = rotated == NULL
                         ? NIB_ENOMEM
                         : nib_gpu_turn_emulate(turn, unit, t.view, how.axis, request->threads, rotated, error);
            how.rotated = rotated;
            if (status == NIB_OK) {
                status = nib_gpu_compare_rotate(&how, t.view, &counts, error);
                if (status == NIB_OK)
                    status = nib_gpu_report_add(report, &what, &counts, error);
                else
                    status = nib_gpu_report_failure(report, &what, status, error);
            }
            for (size_t s = 0; s < subjects->count && status == NIB_OK; s++) {
                if (!subjects->rotated[s]) continue;
                struct nib_gpu_counts quantized = {0};
                how.quantizer = subjects->quantizer[s];
                what.name = subjects->name[s];
                what.rounding = nib_gpu_rounding_of(how.quantizer);
                status = nib_gpu_compare_quantize(&how, t.view, &quantized, NULL, error);
                status = add(report, what, &quantized, NULL, status, error);
            }
            free(rotated);
            nib_gpu_tensor_free(&t);
        }
    return status;
}

enum nib_status nib_gpu_check_rotated(const struct nib_gpu_check_request *request, struct nib_table *report,
                                      struct nib_error *error) {
    static const unsigned sizes[] = {16, 32, 64, 128, 256};
    struct nib_gpu_subjects subjects;
    const struct nib_unit *unit = NULL;
    enum nib_status status = nib_gpu_check_rotation_unit(request->gpu, &unit, error);
    if (status != NIB_OK) return status;
    status = nib_gpu_subjects_open(&subjects, error);
    if (status != NIB_OK) {
        nib_unit_close(unit);
        return status;
    }
    for (size_t i = 0; i < 5 && status == NIB_OK; i++)
        for (int by = request->shared ? 1 : 0; by < 2 && status == NIB_OK && !(request->small && i % 2 == 1); by++)
            for (int bf16 = 0; bf16 < 2 && status == NIB_OK; bf16++) {
                struct nib_gpu_turn turn;
                enum nib_gpu_rotate_by way = by == 0 ? NIB_GPU_BUTTERFLY : NIB_GPU_TENSOR_CORE;
                status = nib_gpu_turn_open(sizes[i], way, bf16 != 0, request->seed + sizes[i], &turn, error);
                if (status != NIB_OK) break;
                if (request->progress != NULL)
                    request->progress(request->context, turn.name, i * 4 + (size_t)(by * 2 + bf16), 20);
                struct nib_gpu_case what = {"rotate", "hadamard", "", "bf16", turn.name, "", ""};
                if (by == 1 && unit == NULL)
                    status = nib_gpu_report_skip(report, &what, "no emulator counterpart yet",
                                                 "no model of this device's bf16 mma", error);
                else
                    for (int d = 0; d < 3 && status == NIB_OK; d++)
                        if ((by == 0 && !(request->small && d == NIB_F16)) || d == NIB_BF16)
                            status = run_turn(request, report, &subjects, &turn, unit, (enum nib_dtype)d, error);
                nib_gpu_turn_close(&turn);
            }
    nib_gpu_subjects_close(&subjects);
    nib_unit_close(unit);
    return status;
}

/* One matrix of a file through every quantizer, raw and behind the two rotations of size 16. */
static enum nib_status run_matrix(const struct nib_gpu_check_request *request, struct nib_table *report,
                                  const struct nib_gpu_subjects *subjects, const struct nib_gpu_turn turns[3],
                                  const struct nib_unit *unit, struct nib_view x, struct nib_gpu_counts (*counts)[2][3],
                                  struct nib_error *error) {
    enum nib_status status = NIB_OK;
    for (size_t s = 0; s < subjects->count && status == NIB_OK; s++)
        for (int a = 0; a < 2 && status == NIB_OK; a++)
            for (int r = 0; r < 3 && status == NIB_OK; r++) {
                size_t inner = a == 0 ? x.cols : x.rows;
                if (r > 0 && (!subjects->rotated[s] || inner % 16 != 0)) continue;
                if (r == 2 && (unit == NULL || x.dtype != NIB_BF16)) continue;
                struct nib_gpu_comparison how = {.gpu = request->gpu,
                                                 .quantizer = subjects->quantizer[s],
                                                 .turn = &turns[r],
                                                 .unit = unit,
                                                 .axis = (enum nib_axis)a,
                                                 .threads = request->threads,
                                                 .seed = request->seed};
                status = nib_gpu_compare_quantize(&how, x, &counts[s][a][r], NULL, error);
                if (status == NIB_OK) continue;
                struct nib_gpu_case what = {"quantize",
                                            subjects->name[s],
                                            nib_axis_names[how.axis],
                                            nib_gpu_dtype_name(x.dtype),
                                            turns[r].name,
                                            nib_gpu_rounding_of(how.quantizer),
                                            "file"};
                status = nib_gpu_report_failure(report, &what, status, error);
            }
    return status;
}

static enum nib_status run_file(const struct nib_gpu_check_request *request, struct nib_table *report, const char *path,
                                const struct nib_gpu_subjects *subjects, const struct nib_gpu_turn turns[3],
                                const struct nib_unit *unit, struct nib_error *error) {
    struct nib_gpu_counts counts[NIB_GPU_SUBJECTS][2][3];
    struct nib_file *file;
    memset(counts, 0, sizeof counts);
    enum nib_status status = nib_file_open(path, &file, error);
    if (status != NIB_OK) return status;
    const char *type = "";
    for (size_t i = 0; i < nib_file_count(file) && status == NIB_OK; i++) {
        struct nib_tensor_info info;
        struct nib_view x;
        nib_file_tensor(file, i, &info);
        if (info.rank != 2 || nib_file_view(file, i, false, &x, NULL) != NIB_OK) continue;
        if (request->small) x.rows = x.rows < 32 ? x.rows : 32;
        if (request->progress != NULL) request->progress(request->context, info.name, i, nib_file_count(file));
        type = nib_gpu_dtype_name(x.dtype);
        status = run_matrix(request, report, subjects, turns, unit, x, counts, error);
        if (request->small && i == 1) break;
    }
    const char *name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    for (size_t s = 0; s < subjects->count && status == NIB_OK; s++)
        for (int a = 0; a < 2 && status == NIB_OK; a++)
            for (int r = 0; r < 3 && status == NIB_OK; r++)
                if (counts[s][a][r].calls > 0)
                    status = add(report,
                                 (struct nib_gpu_case){"", subjects->name[s], nib_axis_names[a], type, turns[r].name,
                                                       nib_gpu_rounding_of(subjects->quantizer[s]), name},
                                 &counts[s][a][r], NULL, NIB_OK, error);
    nib_file_close(file);
    return status;
}

enum nib_status nib_gpu_check_files(const struct nib_gpu_check_request *request, struct nib_table *report,
                                    struct nib_error *error) {
    struct nib_gpu_subjects subjects = {.count = 0};
    struct nib_gpu_turn turns[3];
    const struct nib_unit *unit = NULL;
    memset(turns, 0, sizeof turns);
    enum nib_status status = nib_gpu_check_rotation_unit(request->gpu, &unit, error);
    if (status == NIB_OK) status = nib_gpu_subjects_open(&subjects, error);
    if (status == NIB_OK) status = nib_gpu_turn_open(16, NIB_GPU_BUTTERFLY, true, request->seed, &turns[1], error);
    if (status == NIB_OK) status = nib_gpu_turn_open(16, NIB_GPU_TENSOR_CORE, true, request->seed, &turns[2], error);
    for (size_t i = 0; i < request->file_count && status == NIB_OK; i++)
        status = run_file(request, report, request->files[i], &subjects, turns, unit, error);
    for (int r = 0; r < 3; r++) nib_gpu_turn_close(&turns[r]);
    nib_gpu_subjects_close(&subjects);
    nib_unit_close(unit);
    return status;
}

/* Element conversion, layouts, and what cannot be compared here. */
enum nib_status nib_gpu_check_rest(const struct nib_gpu_check_request *request, struct nib_table *report,
                                   struct nib_error *error) {
    static const size_t shapes[][2] = {{1, 1}, {128, 4}, {129, 5}, {200, 63}, {640, 96}, {33, 7}};
    struct nib_gpu_device device;
    char message[256] = "";
    enum nib_status status =
        nib_gpu_status(request->gpu->plugin->device(&device, message, sizeof message), message, error);
    if (status == NIB_OK && !request->small) {
        struct nib_gpu_counts counts = {.calls = 1, .compared = 1ull << 32};
        uint32_t first = 0;
        struct nib_gpu_case what = {"convert", "e2m1, kernel against cuda_fp4.h", "", "fp32", "", "rne", "all 2^32"};
        status = nib_gpu_status(request->gpu->plugin->check_e2m1(&counts.codes, &first, message, sizeof message),
                                message, error);
        if (counts.codes > 0)
            nib_gpu_counts_note(&counts, "input %08X: the kernel's code is not that of the vendor header", first);
        status = status == NIB_OK ? nib_gpu_report_add(report, &what, &counts, error)
                                  : nib_gpu_report_failure(report, &what, status, error);
    }
    for (int tile = 0; tile < 2 && status == NIB_OK; tile++) {
        struct nib_gpu_counts counts = {0};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && status == NIB_OK; i++)
            status = nib_gpu_compare_swizzle(request->gpu, shapes[i][0], shapes[i][1], tile == 0 ? 128 : 8,
                                             request->seed + i, &counts, error);
        struct nib_gpu_case what = {"swizzle", tile == 0 ? "128x4" : "8x4", "", "", "", "", "random bytes"};
        status = status == NIB_OK ? nib_gpu_report_add(report, &what, &counts, error)
                                  : nib_gpu_report_failure(report, &what, status, error);
    }
    if (status == NIB_OK && !device.native_fp4_convert)
        status = nib_gpu_report_skip(
            report, &(struct nib_gpu_case){"convert", "cvt.rn.satfinite.e2m1x2", "", "fp32", "", "rne", ""},
            NIB_GPU_NOT_RUN, "needs sm_100a or sm_120a; the kernels used arithmetic of their own", error);
    if (status == NIB_OK && !device.native_fp4_stochastic)
        status = nib_gpu_report_skip(
            report, &(struct nib_gpu_case){"convert", "cvt.rs.satfinite.e2m1x4", "", "fp32", "", "sr", ""},
            NIB_GPU_NOT_RUN, "needs sm_100a or sm_103a", error);
    return status;
}

enum nib_status nib_gpu_check_run(const struct nib_gpu_check_request *request, struct nib_table **out,
                                  struct nib_error *error) {
    struct nib_table *report;
    enum nib_status status = nib_gpu_report_new(&report, error);
    if (status != NIB_OK) return status;
    status = nib_gpu_check_quantize(request, report, error);
    if (status == NIB_OK) status = nib_gpu_check_rotated(request, report, error);
    if (status == NIB_OK && !request->shared) status = nib_gpu_check_files(request, report, error);
    if (status == NIB_OK && !request->shared) status = nib_gpu_check_rest(request, report, error);
    if (status == NIB_OK) status = nib_gpu_check_products(request, report, error);
    if (status == NIB_OK && !request->small)
        status = nib_gpu_check_cublaslt(request, report, error); /* not our kernels */
    if (status == NIB_OK)
        *out = report;
    else
        nib_table_free(report);
    return status;
}
