/* Figures through gnuplot: data, the shared style and one script of plots/ become a file PREFIX.gp that
 * needs nothing else, and from it PREFIX.png and PREFIX.pdf.
 *
 *     struct nib_figure *figure;
 *     nib_figure_new("bias", &figure, error);
 *     nib_figure_text(figure, "rotation", "rht16");
 *     nib_figure_block(figure, "First");
 *     nib_figure_line(figure, "%zu %.6g", place, sqnr);     any number of lines
 *     nib_figure_end(figure);
 *     nib_figure_write(figure, "out/bias", error);          frees the figure, also on failure
 */
#ifndef NIB_PLOT_FIGURE_H
#define NIB_PLOT_FIGURE_H

#include <nibble/table.h>

struct nib_figure;

/* `name` is that of a script in plots/. */
NIB_CHECK enum nib_status nib_figure_new(const char *name, struct nib_figure **out, struct nib_error *error);
void nib_figure_free(struct nib_figure *figure);
void nib_figure_text(struct nib_figure *figure, const char *variable, const char *value);
void nib_figure_number(struct nib_figure *figure, const char *variable, double value);
void nib_figure_size(struct nib_figure *figure, double width_cm, double height_cm);
/* A block of data: lines of blank-separated columns; numbers whatever the locale is. */
void nib_figure_block(struct nib_figure *figure, const char *name);
void nib_figure_line(struct nib_figure *figure, const char *format, ...) NIB_PRINTF(2, 3);
/* A text as a column of a line: quotes and line ends replaced, in double quotes. */
const char *nib_figure_quote(const char *text, char out[static 160]);
void nib_figure_end(struct nib_figure *figure);
/* PREFIX.gp, then PREFIX.png and PREFIX.pdf, each complete or not at all. NIB_EUNAVAILABLE when there is
 * no gnuplot (the script is there then), NIB_EIO when writing or gnuplot fails. */
NIB_CHECK enum nib_status nib_figure_write(struct nib_figure *figure, const char *prefix, struct nib_error *error);

/* One file, in the format of its extension: png, pdf or svg. `script` keeps the gnuplot text with the data there; NULL: it
 * goes away. Frees the figure, also on failure. */
NIB_CHECK enum nib_status nib_figure_draw(struct nib_figure *figure, const char *path, const char *script,
                                          struct nib_error *error);
/* An array of texts: NAME[1], NAME[2], ... */
void nib_figure_texts(struct nib_figure *figure, const char *name, const char *const *texts, size_t count);

/* A figure of any table: lines over a numeric column, bars of things without an order, a map of colours where two columns
 * say which row is meant. Text columns, and the numeric ones in `keys`, say which row it is; what is drawn is a real one. */
enum nib_plot_kind { NIB_PLOT_AUTO, NIB_PLOT_LINES, NIB_PLOT_BARS, NIB_PLOT_HEAT };
struct nib_plot_request {
    enum nib_plot_kind kind;
    const char *measure; /* NULL: the first real column */
    const char *x;       /* the column along the abscissa; NULL: chosen by kind */
    const char *title;
    size_t keys;         /* columns 1 to `keys` are keys, numeric or not; 0: all text columns are */
    const char *const *where; /* `conditions` of the form COLUMN=VALUE,...: the rows that meet them all are drawn */
    size_t conditions;
};
NIB_CHECK enum nib_status nib_plot_table(const struct nib_table *table, const struct nib_plot_request *request,
                                         const char *path, const char *script, struct nib_error *error);

/* The figure of a bias report from its table of totals (nib_bias_totals): SQNR and 1 - alpha of every
 * tensor through the first NIB_PLOT_QUANTIZERS quantizers, raw and after the last rotation. */
enum { NIB_PLOT_QUANTIZERS = 6 };
NIB_CHECK enum nib_status nib_plot_bias(const struct nib_table *totals, const char *prefix, struct nib_error *error);
/* UFP4's figure 2 from the same table: B_eff of the raw tensor against the change of SQNR by the last rotation, for the
 * first two quantizers, by operand and depth. */
NIB_CHECK enum nib_status nib_plot_usage(const struct nib_table *totals, const char *prefix, struct nib_error *error);
/* Figures of an exploration: bins of grids with their mean errors (UFP4's figure 1a); SQNR against |1 - alpha| with the
 * Pareto front; SQNR by grid, scale, density and block size; bias and loss by crest factor. */
NIB_CHECK enum nib_status nib_plot_grids(const struct nib_table *bins, const char *prefix, struct nib_error *error);
NIB_CHECK enum nib_status nib_plot_pareto(const struct nib_table *grids, const char *prefix, struct nib_error *error);
NIB_CHECK enum nib_status nib_plot_heat(const struct nib_table *grids, const char *prefix, struct nib_error *error);
NIB_CHECK enum nib_status nib_plot_crest(const struct nib_table *family, const char *prefix, struct nib_error *error);
/* Accumulation over depth: gain beside the product of expected gains, norm ratio and cosine, for each text of the column
 * "case"; rows of pass "fprop" go up, those of "dgrad" come down. */
NIB_CHECK enum nib_status nib_plot_chain(const struct nib_table *depths, const char *title, const char *prefix,
                                         struct nib_error *error);
/* Of a layer stack's table: what a rotation changes of every GEMM's output, layer by layer (UFP4's figure 12); inputs of
 * the MLP's linear layers, raw and rotated, with their outputs (its figures 4 to 7). */
NIB_CHECK enum nib_status nib_plot_stack_gemms(const struct nib_table *table, const char *title, const char *prefix, struct nib_error *error);
NIB_CHECK enum nib_status nib_plot_stack_operands(const struct nib_table *table, const char *prefix, struct nib_error *error);

#endif
