/* nibble gpu check --stack: a model's layer stack on both sides. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/lists.h"
#include "cli/gpu.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "io/json_out.h"
#include "job/gpu_report.h"
#include "job/gpu_stack.h"

struct bar {
    const struct nib_call *call;
    struct nib_progress progress;
};
static void advance(void *context, const char *recipe, size_t done, size_t total) {
    struct bar *bar = context;
    if (done == 0) nib_progress_start(&bar->progress, bar->call, "products", total);
    nib_progress_step(&bar->progress, done > bar->progress.done ? done - bar->progress.done : 0, recipe);
}

static enum nib_status print(const struct nib_call *call, const char *device, const struct nib_table *report,
                             const struct nib_table *summary, const struct nib_gpu_totals *t, struct nib_error *error) {
    const struct nib_gpu_arguments *arguments = call->options;
    char headline[320];
    const uint64_t not_run = t->not_run + t->without_counterpart; /* what follows a product is said in its row */
    int used = snprintf(headline, sizeof headline, "%s: ", device);
    if (t->differing_rows == 0)
        used += snprintf(headline + used, sizeof headline - (size_t)used, "0 differences");
    else
        used += snprintf(headline + used, sizeof headline - (size_t)used, "%llu of %llu rows DIFFER",
                         (unsigned long long)t->differing_rows, (unsigned long long)t->rows);
    snprintf(headline + used, sizeof headline - (size_t)used,
             " in %llu quantized values, %llu rotated values and %llu outputs of products",
             (unsigned long long)t->quantized, (unsigned long long)t->rotated, (unsigned long long)t->products);
    if (call->common.json) {
        struct nib_json *json;
        enum nib_status status = nib_output_json(call, &json, error);
        if (status != NIB_OK) return status;
        nib_json_text(json, "headline", headline);
        nib_json_text(json, "device", device);
        nib_json_unsigned(json, "quantized_values", t->quantized);
        nib_json_unsigned(json, "rotated_values", t->rotated);
        nib_json_unsigned(json, "product_outputs", t->products);
        nib_json_unsigned(json, "differing_rows", t->differing_rows);
        nib_json_unsigned(json, "rows_not_run", not_run);
        nib_json_table(json, "rows", report);
        nib_json_end(json);
        return NIB_OK;
    }
    if (call->common.tsv) return nib_output_table(call, report, NULL, error);
    bool hidden[NIB_GPU_STACK_COLUMNS] = {false};
    hidden[NIB_GPU_STACK_MODULE] = !arguments->all;
    hidden[NIB_GPU_STACK_LAYER] = !arguments->all;
    nib_output_aligned(call, arguments->all ? report : summary,
                       &(struct nib_layout){headline, true, NIB_GPU_STACK_RECIPE, hidden}, stdout);
    printf("\n%llu rows compared, %llu not run on this device.\n", (unsigned long long)(t->rows - not_run),
           (unsigned long long)not_run);
    return NIB_OK;
}

static enum nib_status compare(struct nib_call *call, const struct nib_gpu *gpu, const struct nib_stack_input *input,
                               const struct nib_recipe *const *recipes, struct nib_error *error) {
    const struct nib_gpu_arguments *a = call->options;
    struct nib_table *report = NULL, *summary = NULL;
    struct nib_gpu_totals totals;
    struct nib_gpu_device device;
    struct bar bar = {.call = call};
    const struct nib_gpu_stack_request request = {.gpu = gpu,
                                                  .input = input,
                                                  .recipes = recipes,
                                                  .recipe_count = a->recipes.count,
                                                  .backward = !a->forward_only,
                                                  .seed = (uint64_t)call->common.seed,
                                                  .threads = (int)call->common.threads,
                                                  .progress = advance,
                                                  .context = &bar};
    enum nib_status status = nib_gpu_device_of(gpu, &device, error);
    if (status == NIB_OK) status = nib_gpu_stack_run(&request, &report, error);
    nib_progress_end(&bar.progress);
    if (status != NIB_OK) return status;
    nib_gpu_report_totals(report, &totals);
    call->check_failed = totals.differing_rows > 0;
    status = nib_gpu_stack_summary(report, &summary, error);
    if (status == NIB_OK) status = print(call, device.name, report, summary, &totals, error);
    if (status == NIB_OK && call->common.output != NULL)
        status = nib_gpu_store(call, gpu, "a layer stack, device against emulator", report, summary, error);
    nib_table_free(report);
    nib_table_free(summary);
    return status;
}

enum nib_status nib_gpu_check_stack(struct nib_call *call, const struct nib_gpu *gpu, struct nib_error *error) {
    const struct nib_gpu_arguments *a = call->options;
    struct nib_stack_input input = {.stack = NULL};
    const struct nib_recipe **recipes = nib_alloc(a->recipes.count, sizeof *recipes, "recipes", error);
    enum nib_status status =
        recipes == NULL ? NIB_ENOMEM : nib_recipes_open(a->recipes.item, a->recipes.count, recipes, error);
    if (status == NIB_OK)
        status =
            nib_stack_input_open(a->stack, a->tokens, (size_t)a->sequences, (size_t)a->length, 1, 0, &input, error);
    if (status == NIB_OK) status = compare(call, gpu, &input, recipes, error);
    nib_stack_input_close(&input);
    for (size_t i = 0; recipes != NULL && i < a->recipes.count; i++) nib_recipe_close(recipes[i]);
    free(recipes);
    return status;
}
