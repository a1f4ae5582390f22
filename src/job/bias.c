/* Runs the measurements of a bias report. */
#include "job/bias.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/multiple.h"
#include "base/threads.h"
#include "io/locator.h"
#include "job/stream.h"
#include "measure/plan.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks and rotations of 32 and less never cross the batches, whatever else is measured. */
enum { SAMPLE_COLS = 1024, COMMON_GROUP = 32 };

struct source {
    struct nib_view x; /* in an open file */
    const struct nib_file *file;
    const struct nib_distribution *distribution; /* NULL for a tensor of a file */
};

struct nib_bias_result {
    size_t quantizers, rotations, views, capacity, skipped;
    char (*quantizer_name)[80];
    char (*rotation_name)[80];
    struct nib_element *element; /* copies; the texts in them are not to be used */
    struct nib_bias_view *view;
    struct source *source;
    struct nib_bias_entry *entry; /* view, rotation, quantizer */
    struct nib_file **files;      /* open while running */
    size_t file_count;
    char **paths;
};

static void close_files(struct nib_bias_result *result) {
    for (size_t i = 0; result->files != NULL && i < result->file_count; i++)
        if (result->files[i] != NULL) nib_file_close(result->files[i]);
    free(result->files);
    free(result->source);
    result->files = NULL;
    result->source = NULL;
}

void nib_bias_result_free(struct nib_bias_result *result) {
    if (result == NULL) return;
    close_files(result);
    for (size_t i = 0; i < result->views; i++) free(result->view[i].tensor);
    for (size_t i = 0; result->paths != NULL && i < result->file_count; i++) free(result->paths[i]);
    free(result->paths);
    free(result->view);
    free(result->entry);
    free(result->element);
    free(result->rotation_name);
    free(result->quantizer_name);
    free(result);
}

static enum nib_status add_view(struct nib_bias_result *result, const struct nib_bias_view *view,
                                const struct source *source, struct nib_error *error) {
    if (result->views == result->capacity) {
        size_t capacity = result->capacity == 0 ? 64 : 2 * result->capacity;
        struct nib_bias_view *views = realloc(result->view, capacity * sizeof *views);
        if (views != NULL) result->view = views;
        struct source *sources = realloc(result->source, capacity * sizeof *sources);
        if (sources != NULL) result->source = sources;
        if (views == NULL || sources == NULL)
            return nib_fail(error, NIB_ENOMEM, "out of memory for %zu views", capacity);
        result->capacity = capacity;
    }
    char *name = strdup(view->tensor);
    if (name == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    result->view[result->views] = *view;
    result->view[result->views].tensor = name;
    result->source[result->views++] = *source;
    return NIB_OK;
}

/* The views of one tensor that the request asks for. */
static enum nib_status add_views(struct nib_bias_result *result, const struct nib_bias_request *request,
                                 struct nib_bias_view view, const struct source *source, struct nib_error *error) {
    if (request->operand != NIB_OPERAND_NONE) view.operand = request->operand;
    if (request->axis != NIB_AXIS_BY_ROLE || (view.operand == NIB_OPERAND_NONE && request->gemm == NIB_GEMM_NONE)) {
        view.gemm = NIB_GEMM_NONE;
        view.axis = request->axis == NIB_AXIS_BY_ROLE ? NIB_ALONG_COLS : (enum nib_axis)request->axis;
        return add_view(result, &view, source, error);
    }
    if (view.operand == NIB_OPERAND_NONE)
        return nib_fail(error, NIB_EINVAL,
                        "%s: its name does not tell which operand of %s it is; say --operand x, w or dy", view.tensor,
                        nib_gemm_names[request->gemm]);
    for (int gemm = 0; gemm < NIB_GEMMS; gemm++) {
        view.gemm = (enum nib_gemm)gemm;
        if (request->gemm != NIB_GEMM_NONE && request->gemm != view.gemm) continue;
        if (!nib_gemm_axis(view.gemm, view.operand, &view.axis)) continue;
        enum nib_status status = add_view(result, &view, source, error);
        if (status != NIB_OK) return status;
    }
    return NIB_OK;
}

static enum nib_status add_file(struct nib_bias_result *result, const struct nib_bias_request *request, size_t number,
                                struct nib_error *error) {
    struct nib_locator locator;
    enum nib_status status = nib_locator_parse(request->files[number], &locator, error);
    if (status != NIB_OK) return status;
    bool bare = locator.tensor[0] == '\0';
    result->paths[number] = strdup(locator.path);
    nib_locator_free(&locator);
    if (result->paths[number] == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    size_t *indices = NULL, count = 0;
    status = nib_locator_open(request->files[number], false, &result->files[number], &indices, &count, error);
    bool only = status == NIB_OK && nib_file_count(result->files[number]) == 1;
    for (size_t i = 0; status == NIB_OK && i < count; i++) {
        struct nib_tensor_info info;
        struct nib_tensor_role role;
        nib_file_tensor(result->files[number], indices[i], &info);
        nib_tensor_role_of(&info, &role);
        if (bare && !only && !role.linear) {
            result->skipped++;
            continue;
        }
        struct nib_view x;
        status = nib_file_view(result->files[number], indices[i], request->cast_f64, &x, error);
        if (status != NIB_OK) break;
        char tensor[256];
        snprintf(tensor, sizeof tensor, "%s", info.name[0] == '\0' ? result->paths[number] : info.name);
        struct nib_bias_view view = {tensor, result->paths[number], "", role.layer, NIB_GEMM_NONE,
                                     role.linear ? role.operand : NIB_OPERAND_NONE, NIB_ALONG_COLS, x.rows, x.cols};
        memcpy(view.module, role.module, sizeof view.module);
        status = add_views(result, request, view, &(struct source){x, result->files[number], NULL}, error);
    }
    free(indices);
    return status;
}

static enum nib_status collect(struct nib_bias_result *result, const struct nib_bias_request *request,
                               struct nib_error *error) {
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < request->file_count; i++) status = add_file(result, request, i, error);
    for (size_t i = 0; status == NIB_OK && i < request->distribution_count; i++) {
        const struct nib_distribution *distribution = &request->distributions[i];
        char name[40];
        snprintf(name, sizeof name, "%s", distribution->name);
        size_t rows = (size_t)((request->sample_count + SAMPLE_COLS - 1) / SAMPLE_COLS);
        struct nib_bias_view view = {name, "", "", -1, NIB_GEMM_NONE, NIB_OPERAND_NONE, NIB_ALONG_COLS, rows, SAMPLE_COLS};
        status = add_views(result, request, view, &(struct source){.distribution = distribution}, error);
    }
    if (status == NIB_OK && result->views == 0)
        status = nib_fail(error, NIB_EINVAL, "no tensor to measure: none is of a linear layer%s",
                          request->gemm != NIB_GEMM_NONE ? " that takes part in this GEMM" : "");
    return status;
}

/* What is needed while views are measured. */
struct work {
    const struct nib_bias_request *request;
    struct nib_bias_result *result;
    struct nib_measure_options options;
    int inner_threads;
    size_t total; /* elements to measure */
    size_t done;  /* shared; updated atomically */
};

/* Only the first thread reports, so that the caller needs no lock. */
static void report(struct work *work, size_t elements, const char *tensor) {
    size_t done;
#pragma omp atomic capture
    done = work->done += elements;
    if (work->request->progress != NULL && omp_get_thread_num() == 0)
        work->request->progress(work->request->context, done, work->total, tensor);
}

struct reporting {
    struct work *work;
    const char *tensor;
};

static void report_part(void *context, size_t elements) {
    const struct reporting *reporting = context;
    report(reporting->work, elements, reporting->tensor);
}

/* All quantizers after one rotation. */
static enum nib_status measure_rotated(struct work *work, struct nib_view x, const struct nib_file *file,
                                       const struct nib_bias_view *view, size_t rotation, struct nib_streamed *out,
                                       struct nib_error *error) {
    struct reporting reporting = {work, view->tensor};
    struct nib_stream stream = {.x = x,
                                .axis = view->axis,
                                .file = file,
                                .rotation = work->request->rotations[rotation],
                                .quantizers = work->request->quantizers,
                                .quantizer_count = work->result->quantizers,
                                .options = work->options,
                                .seed = work->request->seed,
                                .progress = report_part,
                                .context = &reporting};
    return nib_stream_measure(&stream, out, error);
}

/* `m` holds the measurements by rotation and quantizer. */
static void estimate(struct nib_bias_result *result, size_t view, const struct nib_streamed *m) {
    size_t quantizers = result->quantizers;
    for (size_t r = 0; r < result->rotations; r++)
        for (size_t q = 0; q < quantizers; q++) {
            const struct nib_measurement *own = &m[r * quantizers + q].m;
            struct nib_bias_entry *entry = &result->entry[(view * result->rotations + r) * quantizers + q];
            entry->total = own->total;
            entry->batches = own->batches;
            entry->bits_per_value = own->bits_per_value;
            entry->tensor_amax = m[r * quantizers + q].tensor_amax;
            memcpy(entry->scale_count, own->scale_count, sizeof entry->scale_count);
            nib_measurement_estimates(own, entry->estimate);
            for (unsigned c = 0; c < NIB_CODES; c++) nib_measurement_level(own, (uint8_t)c, &entry->level[c]);
            nib_measurement_differences(own, &m[q].m, entry->by_rotation);
            nib_measurement_differences(own, &m[r * quantizers].m, entry->by_quantizer);
        }
}

static enum nib_status measure_view(struct work *work, size_t number, struct nib_error *error) {
    const struct nib_bias_view *view = &work->result->view[number];
    const struct source *source = &work->result->source[number];
    struct nib_view x = source->x;
    float *sample = NULL;
    size_t each = work->result->quantizers * work->result->rotations;
    struct nib_streamed *measurements = nib_alloc(each, sizeof *measurements, "measurements", error);
    if (measurements == NULL) return NIB_ENOMEM;
    enum nib_status status = NIB_OK;
    if (source->distribution != NULL) {
        sample = nib_alloc_raw(view->rows * view->cols, sizeof *sample, "a random tensor", error);
        if (sample == NULL) status = NIB_ENOMEM;
        if (status == NIB_OK)
            nib_distribution_fill(source->distribution, work->request->seed, 0, view->rows * view->cols,
                                  work->inner_threads, sample);
        x = (struct nib_view){sample, NIB_F32, view->rows, view->cols, view->cols};
    }
    for (size_t r = 0; status == NIB_OK && r < work->result->rotations; r++)
        status = measure_rotated(work, x, source->file, view, r, measurements + r * work->result->quantizers, error);
    if (status == NIB_OK) estimate(work->result, number, measurements);
    if (status != NIB_OK && error != NULL && error->file[0] == '\0')
        snprintf(error->file, sizeof error->file, "%.255s", view->tensor);
    free(sample);
    free(measurements);
    return status;
}

/* Many views: one thread each, and no waiting; few: all threads on each. */
static enum nib_status measure_all(struct work *work, struct nib_error *error) {
    size_t views = work->result->views;
    int threads = nib_threads(work->request->threads);
    int outer = views >= 2 * (size_t)threads ? threads : 1;
    work->inner_threads = outer > 1 ? 1 : threads;
    work->options.threads = work->inner_threads;
    enum nib_status status = NIB_OK;
#pragma omp parallel for num_threads(outer) schedule(dynamic)
    for (size_t i = 0; i < views; i++) {
        enum nib_status before, own;
        struct nib_error own_error = {NIB_OK, 0, "", ""};
#pragma omp atomic read
        before = status;
        if (before != NIB_OK) continue;
        own = measure_view(work, i, &own_error);
        if (own == NIB_OK) continue;
#pragma omp critical(nib_bias_failure)
        {
            if (error != NULL && status == NIB_OK) *error = own_error;
#pragma omp atomic write
            status = own;
        }
    }
    return status;
}

/* Every measurement of the job is cut alike, so that all can be compared batch by batch. */
static void common_groups(struct work *work) {
    size_t along = COMMON_GROUP, across = 1;
    for (size_t i = 0; i < work->request->rotation_count; i++)
        along = nib_least_common_multiple(along, nib_rotation_size(work->request->rotations[i]));
    for (size_t i = 0; i < work->request->quantizer_count; i++) {
        struct nib_quantizer_info info;
        nib_quantizer_describe(work->request->quantizers[i], &info);
        along = nib_least_common_multiple(along, info.block->block_cols);
        across = nib_least_common_multiple(across, info.block->block_rows);
    }
    work->options = (struct nib_measure_options){along, across, 0};
}

/* Before any work: an extent that a rotation cannot take. */
static enum nib_status check_rotations(const struct nib_bias_request *request, const struct nib_bias_view *view,
                                       struct nib_error *error) {
    bool along_cols = view->axis == NIB_ALONG_COLS;
    size_t extent = along_cols ? view->cols : view->rows;
    for (size_t i = 0; i < request->rotation_count; i++) {
        size_t size = nib_rotation_size(request->rotations[i]);
        if (extent % size != 0)
            return nib_fail_at(error, NIB_EINVAL, view->tensor, 0,
                               "%zu %s cannot be rotated by %s in groups of %zu; pad them to %zu", extent,
                               along_cols ? "columns" : "rows", nib_rotation_name(request->rotations[i]), size,
                               (extent / size + 1) * size);
    }
    return NIB_OK;
}

static enum nib_status prepare(struct nib_bias_result *result, const struct nib_bias_request *request,
                               struct nib_error *error) {
    result->quantizers = request->quantizer_count;
    result->rotations = request->rotation_count;
    result->file_count = request->file_count;
    result->quantizer_name = nib_alloc(result->quantizers, sizeof *result->quantizer_name, "names", error);
    result->rotation_name = nib_alloc(result->rotations, sizeof *result->rotation_name, "names", error);
    result->element = nib_alloc(result->quantizers, sizeof *result->element, "elements", error);
    result->files = nib_alloc(result->file_count, sizeof *result->files, "files", error);
    result->paths = nib_alloc(result->file_count, sizeof *result->paths, "files", error);
    if (result->quantizer_name == NULL || result->rotation_name == NULL || result->element == NULL ||
        result->files == NULL || result->paths == NULL)
        return NIB_ENOMEM;
    for (size_t i = 0; i < result->quantizers; i++) {
        struct nib_quantizer_info info;
        nib_quantizer_describe(request->quantizers[i], &info);
        snprintf(result->quantizer_name[i], sizeof *result->quantizer_name, "%s", info.name);
        result->element[i] = *info.block->element;
        result->element[i].text = "";
    }
    for (size_t i = 0; i < result->rotations; i++)
        snprintf(result->rotation_name[i], sizeof *result->rotation_name, "%s",
                 nib_rotation_name(request->rotations[i]));
    return NIB_OK;
}

enum nib_status nib_bias_run(const struct nib_bias_request *request, struct nib_bias_result **out,
                             struct nib_error *error) {
    struct nib_bias_result *result = nib_alloc(1, sizeof *result, "a bias report", error);
    if (result == NULL) return NIB_ENOMEM;
    struct work work = {.request = request, .result = result};
    enum nib_status status = prepare(result, request, error);
    if (status == NIB_OK) status = collect(result, request, error);
    for (size_t i = 0; status == NIB_OK && i < result->views; i++)
        status = check_rotations(request, &result->view[i], error);
    size_t each = result->quantizers * result->rotations;
    if (status == NIB_OK) {
        result->entry = nib_alloc(result->views * each, sizeof *result->entry, "results", error);
        if (result->entry == NULL) status = NIB_ENOMEM;
    }
    for (size_t i = 0; i < result->views; i++) work.total += result->view[i].rows * result->view[i].cols * each;
    common_groups(&work);
    if (status == NIB_OK) status = measure_all(&work, error);
    close_files(result);
    if (status == NIB_OK)
        *out = result;
    else
        nib_bias_result_free(result);
    return status;
}

enum nib_status nib_bias_check(const struct nib_bias_request *request, struct nib_error *error) {
    struct nib_bias_result *result = nib_alloc(1, sizeof *result, "a bias report", error);
    if (result == NULL) return NIB_ENOMEM;
    enum nib_status status = prepare(result, request, error);
    if (status == NIB_OK) status = collect(result, request, error);
    for (size_t i = 0; status == NIB_OK && i < result->views; i++)
        status = check_rotations(request, &result->view[i], error);
    nib_bias_result_free(result);
    return status;
}

size_t nib_bias_views(const struct nib_bias_result *result) { return result->views; }
size_t nib_bias_quantizers(const struct nib_bias_result *result) { return result->quantizers; }
size_t nib_bias_rotations(const struct nib_bias_result *result) { return result->rotations; }
size_t nib_bias_skipped(const struct nib_bias_result *result) { return result->skipped; }

const struct nib_bias_view *nib_bias_view_at(const struct nib_bias_result *result, size_t view) {
    return &result->view[view];
}

const char *nib_bias_quantizer_name(const struct nib_bias_result *result, size_t quantizer) {
    return result->quantizer_name[quantizer];
}

const struct nib_element *nib_bias_element(const struct nib_bias_result *result, size_t quantizer) {
    return &result->element[quantizer];
}

const char *nib_bias_rotation_name(const struct nib_bias_result *result, size_t rotation) {
    return result->rotation_name[rotation];
}

const struct nib_bias_entry *nib_bias_entry_at(const struct nib_bias_result *result, size_t view, size_t rotation,
                                               size_t quantizer) {
    return &result->entry[(view * result->rotations + rotation) * result->quantizers + quantizer];
}
