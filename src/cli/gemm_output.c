#include "cli/gemm_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "cli/gemm_input.h"
#include "cli/output.h"
#include "cli/remember.h"
#include "cli/result_file.h"
#include "gemm/epilogue.h"
#include "io/json_out.h"
#include "job/cite.h"

static const char *output_name(const struct nib_gemm *g) {
    static const char *const names[] = {"f32", "bf16", "f16", "e4m3"};
    static const char *const accumulators[] = {"fp32 accumulator", "fp16 accumulator", "s32 accumulator",
                                               "fp64 accumulator"};
    return g->output == NIB_GEMM_ACCUMULATOR ? accumulators[g->unit->accumulator] : names[g->output];
}

static uint64_t bits_at(const struct nib_gemm_result *r, size_t index) {
    unsigned bytes = nib_gemm_output_bytes(r->gemm);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)r->d + index * bytes, bytes);
    return bits;
}

/* Quantities and values of the error report; the columns of every form of output. */
struct line {
    const char *key, *text;
    double value;
};
enum { LINES_MAX = 16 };

static size_t report(const struct nib_gemm_result *r, struct line *out) {
    size_t n = 0;
    const struct nib_gemm_error *e = r->error;
    const struct nib_gemm_anatomy *p = r->anatomy;
    if (e != NULL) {
        out[n++] = (struct line){"outputs", "outputs compared with the exact product", (double)e->outputs};
        out[n++] = (struct line){"exact", "of these equal to it", (double)e->exact};
        out[n++] = (struct line){"nonfinite", "of these infinite or NaN, left out", (double)e->nonfinite};
        out[n++] = (struct line){"max_abs", "largest error", e->max_abs};
        out[n++] = (struct line){"rms", "root mean square of the error", e->rms};
        out[n++] = (struct line){"mean", "mean error", e->mean};
        out[n++] = (struct line){"relative", "norm of the error / norm of the product", e->relative};
    }
    if (p != NULL) {
        out[n++] = (struct line){"from_a", "share of the squared norm lost by quantizing A alone", p->from_a};
        out[n++] = (struct line){"from_b", "by quantizing B alone", p->from_b};
        out[n++] = (struct line){"from_both", "by quantizing both", p->from_both};
        out[n++] = (struct line){"interaction", "the part of it that neither makes alone", p->interaction};
        out[n++] =
            (struct line){"from_accumulation", "by the arithmetic of the unit and the epilogue", p->from_accumulation};
        out[n++] = (struct line){"total", "in total", p->total};
    }
    return n;
}

static void json_report(struct nib_json *json, const struct nib_gemm_result *r) {
    struct line lines[LINES_MAX];
    size_t count = report(r, lines), first = r->error != NULL ? 7 : 0;
    if (r->error != NULL) nib_json_object(json, "error");
    for (size_t i = 0; i < first; i++) {
        if (i < 3)
            nib_json_unsigned(json, lines[i].key, (uint64_t)lines[i].value);
        else
            nib_json_real(json, lines[i].key, lines[i].value);
    }
    if (r->error != NULL) nib_json_close(json);
    if (r->anatomy == NULL) return;
    nib_json_object(json, "anatomy");
    nib_json_unsigned(json, "outputs", r->anatomy->outputs);
    for (size_t i = first; i < count; i++) nib_json_real(json, lines[i].key, lines[i].value);
    nib_json_close(json);
}

static enum nib_status print_json(const struct nib_call *call, const struct nib_gemm_result *r,
                                  struct nib_error *error) {
    const struct nib_gemm *g = r->gemm;
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "unit", g->unit->name);
    nib_json_text(json, "evidence", nib_evidence_name(g->unit->evidence));
    nib_json_text(json, "operand_a", nib_operand_name(g->a.matrix.operand));
    nib_json_text(json, "operand_b", nib_operand_name(g->b.matrix.operand));
    nib_json_sizes(json, "shape", (size_t[]){g->m, g->n, g->k}, 3);
    nib_json_float(json, "alpha", g->alpha);
    nib_json_text(json, "output", output_name(g));
    nib_json_unsigned(json, "inexact_a", r->inexact[0]);
    nib_json_unsigned(json, "inexact_b", r->inexact[1]);
    json_report(json, r);
    nib_json_array(json, "bits");
    for (size_t i = 0; i < g->m * g->n; i++) nib_json_unsigned(json, NULL, bits_at(r, i));
    nib_json_close(json);
    nib_json_array(json, "values");
    for (size_t i = 0; i < g->m * g->n; i++) {
        double value = nib_epilogue_decode(g, r->d, i);
        if (g->output == NIB_GEMM_ACCUMULATOR && g->unit->accumulator >= NIB_ACC_S32)
            nib_json_real(json, NULL, value);
        else
            nib_json_float(json, NULL, (float)value);
    }
    nib_json_close(json);
    nib_json_end(json);
    return NIB_OK;
}

enum { TERMINAL_OUTPUTS = 64 };

static void print_outputs(const struct nib_gemm_result *r, char separator) {
    const struct nib_gemm *g = r->gemm;
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++)
            printf("%.9g%c", nib_output_number(nib_epilogue_decode(g, r->d, i * g->n + j)),
                   j + 1 < g->n ? separator : '\n');
}

enum nib_status nib_gemm_print(const struct nib_call *call, const struct nib_gemm_result *r, struct nib_error *error) {
    const struct nib_gemm *g = r->gemm;
    if (call->common.json) return print_json(call, r, error);
    if (call->common.tsv) {
        printf("#");
        for (size_t j = 0; j < g->n; j++) printf("%sd%zu", j > 0 ? "\t" : "", j);
        printf("\n");
        print_outputs(r, '\t');
        return NIB_OK;
    }
    char digest[65];
    struct nib_style style = nib_output_style(call, stdout);
    nib_sha256_hex(r->d, g->m * g->n * nib_gemm_output_bytes(g), digest);
    printf("%s%s%s (%s), %zu x %zu x %zu, %s times %s, output %s\n", style.bold, g->unit->name, style.plain,
           nib_evidence_name(g->unit->evidence), g->m, g->n, g->k, nib_operand_name(g->a.matrix.operand),
           nib_operand_name(g->b.matrix.operand), output_name(g));
    printf("SHA-256 of the output bits  %s\n", digest);
    if (r->inexact[0] + r->inexact[1] > 0)
        printf("rounded into the operand formats: %llu of %zu elements of A, %llu of %zu of B\n",
               (unsigned long long)r->inexact[0], g->m * g->k, (unsigned long long)r->inexact[1], g->n * g->k);
    struct line lines[LINES_MAX];
    size_t count = report(r, lines);
    for (size_t i = 0; i < count; i++) printf("%-56s %.6g\n", lines[i].text, nib_output_number(lines[i].value));
    if (g->m * g->n <= TERMINAL_OUTPUTS)
        print_outputs(r, ' ');
    else
        nib_output_note(call, "%zu outputs; --tsv, --json and -o FILE.h5 give them", g->m * g->n);
    return NIB_OK;
}

static enum nib_status put(struct nib_result *file, const char *name, const char *long_name, enum nib_result_type type,
                           const void *data, struct nib_error *error) {
    struct nib_result_array array = {.group = "product",
                                     .name = name,
                                     .units = "1",
                                     .long_name = long_name,
                                     .type = type,
                                     .rank = 2,
                                     .scales = {"row", "col"},
                                     .data = data};
    return nib_result_array(file, &array, error);
}

static enum nib_status put_report(struct nib_result *file, const struct nib_gemm_result *r, struct nib_error *error) {
    struct line lines[LINES_MAX];
    size_t count = report(r, lines);
    enum nib_status status = nib_result_text_attribute(file, "product", NULL, "unit", r->gemm->unit->name, error);
    if (status == NIB_OK)
        status = nib_result_text_attribute(file, "product", NULL, "output", output_name(r->gemm), error);
    for (size_t i = 0; i < count && status == NIB_OK; i++)
        status = nib_result_real_attribute(file, "product", NULL, lines[i].key, lines[i].value, error);
    return status;
}

/* The instruction set is that of the unit's kernel. */
static enum nib_status remember(const struct nib_call *call, const struct nib_gemm_result *r,
                                struct nib_provenance **out, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    const struct nib_gemm *g = r->gemm;
    const char *isa = NULL, *const files[] = {a->scales_a, a->scales_b, a->c};
    char name[64];
    enum nib_status status = nib_unit_isa(g->unit, g->a.matrix.operand, g->b.matrix.operand, a->isa, &isa, error);
    if (status == NIB_OK) status = nib_remember_call(call, a->isa, 1, out, error);
    if (status != NIB_OK) return status;
    nib_provenance_set_isa(*out, isa);
    if (a->gaussian != NULL || r->quantizer[0] != NULL || r->quantizer[1] != NULL)
        nib_provenance_add_seed(*out, "seed", (uint64_t)call->common.seed);
    snprintf(name, sizeof name, "units/%s", g->unit->name);
    nib_provenance_add_format(*out, name, g->unit->text, g->unit->sha256);
    for (int i = 0; i < 2; i++)
        if (r->quantizer[i] != NULL) nib_cite_quantizer(*out, r->quantizer[i]);
    for (size_t i = 0; status == NIB_OK && i < call->value_count; i++)
        status = nib_remember_input(*out, call->values[i], error);
    for (size_t i = 0; status == NIB_OK && i < sizeof files / sizeof *files; i++)
        status = nib_remember_input(*out, files[i], error);
    return status;
}

enum nib_status nib_gemm_store(const struct nib_call *call, const struct nib_gemm_result *r, struct nib_error *error) {
    const struct nib_gemm *g = r->gemm;
    size_t count = g->m * g->n;
    struct nib_result *file = NULL;
    struct nib_provenance *facts = NULL;
    int64_t *bits = nib_alloc_raw(count, sizeof *bits, "output bits", error);
    double *values = nib_alloc_raw(count, sizeof *values, "output values", error);
    enum nib_status status = bits == NULL || values == NULL ? NIB_ENOMEM : NIB_OK;
    for (size_t i = 0; i < count && status == NIB_OK; i++)
        bits[i] = (int64_t)bits_at(r, i), values[i] = nib_epilogue_decode(g, r->d, i);
    if (status == NIB_OK) status = nib_result_file_open(call, "matrix product", &file, error);
    if (status == NIB_OK) status = nib_result_index_scale(file, "product", "row", "row", g->m, error);
    if (status == NIB_OK) status = nib_result_index_scale(file, "product", "col", "column", g->n, error);
    if (status == NIB_OK) status = put(file, "bits", "bits of the output", NIB_RESULT_I64, bits, error);
    if (status == NIB_OK) status = put(file, "d", "output", NIB_RESULT_F64, values, error);
    if (status == NIB_OK) status = put_report(file, r, error);
    if (status == NIB_OK) status = remember(call, r, &facts, error);
    status = nib_result_file_end(status, file, facts, error);
    free(bits);
    free(values);
    return status;
}
