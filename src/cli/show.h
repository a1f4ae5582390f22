/* What `nibble show` prints beside the file. */
#ifndef NIB_CLI_SHOW_H
#define NIB_CLI_SHOW_H

#include <nibble/element.h>
#include <nibble/table.h>

enum { NIB_SHOW_FACTS = 16 };
struct nib_show_fact {
    const char *name;
    char value[256];
};
struct nib_shown {
    char *text; /* the YAML */
    struct nib_show_fact fact[NIB_SHOW_FACTS];
    size_t fact_count;
    struct nib_table *table; /* below the facts, or NULL */
    struct nib_table *all;   /* instead of `table` for --json and --tsv, where the terminal gets less; or NULL */
    const bool *hidden;      /* columns of `table` that the terminal does not get */
};

void nib_show_fact(struct nib_shown *shown, const char *name, const char *format, ...) NIB_PRINTF(3, 4);
/* Copies the text. */
NIB_CHECK enum nib_status nib_show_keep(struct nib_shown *shown, const char *text, struct nib_error *error);

NIB_CHECK enum nib_status nib_show_element(const char *name, enum nib_rounding mode, struct nib_shown *shown,
                                           struct nib_error *error);
NIB_CHECK enum nib_status nib_show_scale(const char *name, struct nib_shown *shown, struct nib_error *error);
/* All axes in the order in which a quantizer computes, and the choices of one; all jobs, and parameters and measures of
 * one. */
NIB_CHECK enum nib_status nib_show_axes(struct nib_shown *shown, struct nib_error *error);
NIB_CHECK enum nib_status nib_show_axis(const char *name, struct nib_shown *shown, struct nib_error *error);
NIB_CHECK enum nib_status nib_show_jobs(struct nib_shown *shown, struct nib_error *error);
NIB_CHECK enum nib_status nib_show_job(const char *name, struct nib_shown *shown, struct nib_error *error);
NIB_CHECK enum nib_status nib_show_recipe(const char *name, struct nib_shown *shown, struct nib_error *error);

#endif
