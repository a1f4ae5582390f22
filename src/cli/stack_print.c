/* The result of nibble stack on the terminal, as JSON and as TSV. */
#include <stdio.h>

#include "cli/output.h"
#include "cli/stack.h"
#include "io/json_out.h"

/* What each part shows on the terminal; errors stand beside those that are marked. */
struct shown {
    enum nib_depth_quantity quantity;
    bool error;
};
static const struct shown of_summary[] = {
    {NIB_DEPTH_loss, false}, {NIB_DEPTH_loss_change, true}, {NIB_DEPTH_sqnr_db, false}, {NIB_DEPTH_fprop_sqnr_db, false},
    {NIB_DEPTH_dgrad_sqnr_db, false}, {NIB_DEPTH_wgrad_sqnr_db, false}, {NIB_DEPTH_gain, true},
    {NIB_DEPTH_cosine, false}, {NIB_DEPTH_gradient_cosine, true}, {NIB_DEPTH_weight_alpha, true},
    {NIB_DEPTH_weight_cosine, true}, {NIB_DEPTH_stall, true}};
static const struct shown of_stream[] = {{NIB_DEPTH_gain, true}, {NIB_DEPTH_product_predicted, false},
                                         {NIB_DEPTH_product_measured, false}, {NIB_DEPTH_norm_ratio, true},
                                         {NIB_DEPTH_cosine, true}};
static const struct shown of_operand[] = {
    {NIB_DEPTH_alpha, true}, {NIB_DEPTH_b_relative, true}, {NIB_DEPTH_b_eff, false}, {NIB_DEPTH_sqnr_db, true},
    {NIB_DEPTH_crest, false}, {NIB_DEPTH_raw_sqnr_db, false}, {NIB_DEPTH_rotated_sqnr_db, false},
    {NIB_DEPTH_rotation_gain_db, true}, {NIB_DEPTH_raw_b_eff, false}, {NIB_DEPTH_rotated_b_eff, false}};
static const struct shown of_product[] = {{NIB_DEPTH_eta_predicted, false}, {NIB_DEPTH_eta_measured, true},
                                          {NIB_DEPTH_sqnr_db, true}, {NIB_DEPTH_rotation_gain_db, true}};
static const struct shown of_weight[] = {
    {NIB_DEPTH_alpha, true}, {NIB_DEPTH_cosine, true}, {NIB_DEPTH_norm_ratio, false}, {NIB_DEPTH_stall, true}};
#define SHOWN(array) {array, sizeof array / sizeof *(array)}
static const struct {
    const struct shown *item;
    size_t count;
} terminal[NIB_DEPTH_PARTS] = {SHOWN(of_summary), SHOWN(of_stream), SHOWN(of_operand), SHOWN(of_product),
                               SHOWN(of_weight)};

/* Whether any row has the value, so that columns of NaN do not stand there. */
static bool any(const struct nib_table *table, size_t column) {
    for (size_t row = 0; row < nib_table_rows(table); row++) {
        double value = nib_table_real(table, row, column);
        if (value == value) return true;
    }
    return false;
}

static void print_part(const struct nib_call *call, const struct nib_table *table, enum nib_depth_part part,
                       const char *headline) {
    enum { MOST = 1 + NIB_STACK_FIRST + 2 * NIB_DEPTH_QUANTITIES };
    bool hidden[MOST];
    for (size_t i = 0; i < MOST; i++) hidden[i] = true;
    hidden[0] = false;
    hidden[1 + NIB_STACK_LAYER] = part == NIB_DEPTH_SUMMARY || part == NIB_DEPTH_WEIGHT;
    hidden[1 + NIB_STACK_MODULE] = part == NIB_DEPTH_SUMMARY || part == NIB_DEPTH_STREAM;
    hidden[1 + NIB_STACK_PASS] = part == NIB_DEPTH_SUMMARY || part == NIB_DEPTH_WEIGHT;
    hidden[1 + NIB_STACK_OPERAND] = part != NIB_DEPTH_OPERAND;
    for (size_t i = 0; i < terminal[part].count; i++) {
        size_t at = 1 + NIB_STACK_FIRST + 2 * (size_t)terminal[part].item[i].quantity;
        hidden[at] = !any(table, at);
        hidden[at + 1] = !terminal[part].item[i].error || !any(table, at + 1);
    }
    struct nib_layout layout = {headline, part != NIB_DEPTH_SUMMARY, 0, hidden};
    nib_output_aligned(call, table, &layout, stdout);
}

static const char *const headlines[NIB_DEPTH_PARTS] = {
    NULL, "Residual stream and its gradient, by layers below", "Operands as quantized",
    "Outputs of the three GEMMs of each linear layer", "Gradients of weights"};

static void print_terminal(const struct nib_call *call, const struct nib_stack_report *report, const char *ranking,
                           struct nib_table *const tables[NIB_DEPTH_PARTS]) {
    const struct nib_stack_arguments *a = call->options;
    char headline[400];
    snprintf(headline, sizeof headline, "%.200s, %lld x %lld tokens%s, products by %s, against binary64 (loss %.5f)",
             call->values[0], (long long)a->sequences, (long long)a->length,
             a->forward_only ? ", forward" : ", forward and backward",
             a->product == NIB_PRODUCT_BLAS    ? "BLAS (not bit-exact)"
             : a->product == NIB_PRODUCT_EXACT ? "binary64"
                                               : "matrix unit",
             nib_stack_record(report, 0, 0)->value[NIB_DEPTH_loss_reference].value);
    for (int part = 0; part < NIB_DEPTH_PARTS; part++) {
        if (tables[part] == NULL) continue;
        if (part > 0) putchar('\n');
        print_part(call, tables[part], (enum nib_depth_part)part, part == 0 ? headline : headlines[part]);
        if (part == NIB_DEPTH_SUMMARY && ranking[0] != '\0') printf("\n%s.\n", ranking);
    }
    printf(
        "\ngain, cosine: of the residual stream after the last layer, <Xq, X>/||X||^2 and the angle to binary64's.%s\n",
        a->forward_only
            ? ""
            : " R: of all weights'\ngradients, ||g||/(sigma sqrt(d)); below sqrt(3) = 1.73 FP4 All the Way sees training stall.");
    if (a->repeats > 1)
        printf("Means over %lld runs on different sequences with different seeds; +- is the standard error.\n",
               (long long)a->repeats);
    else
        printf(
            "+- is the standard error from sequences; of operands from batches of rows. --repeat N gives it for weights "
            "too.\n");
}

static enum nib_status print_json(const struct nib_call *call, const char *ranking,
                                  struct nib_table *const tables[NIB_DEPTH_PARTS], struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_output_parameters(call, json);
    nib_json_text(json, "headline", ranking);
    for (int part = 0; part < NIB_DEPTH_PARTS; part++)
        if (tables[part] != NULL) nib_json_table(json, nib_depth_part_name((enum nib_depth_part)part), tables[part]);
    nib_json_end(json);
    return NIB_OK;
}

enum nib_status nib_stack_print(const struct nib_call *call, const struct nib_stack_opened *o,
                                const struct nib_stack_report *report, struct nib_error *error) {
    struct nib_table *tables[NIB_DEPTH_PARTS] = {NULL}, *whole = NULL;
    char ranking[800];
    nib_stack_headline(report, o->recipes, ranking, sizeof ranking);
    enum nib_status status = NIB_OK;
    if (call->common.tsv) { /* one table: of the parts that are shown */
        bool any_shown = false;
        for (int i = 0; i < NIB_DEPTH_PARTS; i++) any_shown |= o->shown[i];
        status = any_shown ? nib_stack_table_of_parts(report, o->recipes, o->shown, &whole, error)
                           : nib_stack_table(report, o->recipes, NIB_DEPTH_SUMMARY, &whole, error);
        if (status == NIB_OK) status = nib_output_table(call, whole, NULL, error);
        nib_table_free(whole);
        return status;
    }
    for (int part = 0; status == NIB_OK && part < NIB_DEPTH_PARTS; part++)
        if (part == NIB_DEPTH_SUMMARY || o->shown[part])
            status = nib_stack_table(report, o->recipes, (enum nib_depth_part)part, &tables[part], error);
    if (status == NIB_OK && call->common.json)
        status = print_json(call, ranking, tables, error);
    else if (status == NIB_OK)
        print_terminal(call, report, ranking, tables);
    for (int part = 0; part < NIB_DEPTH_PARTS; part++) nib_table_free(tables[part]);
    return status;
}
