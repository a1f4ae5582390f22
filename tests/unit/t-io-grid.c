/* Arrays over scales, read back as a table: every cell beside its own coordinates. */
#include "base/table.h"
#include "io/hdf5_out.h"
#include "io/hdf5_table.h"
#include "nib_test.h"

#include <unistd.h>

enum { RECIPES = 2, LAYERS = 3, MODULES = 4, CELLS = RECIPES * LAYERS * MODULES };
static const char *const recipes[] = {"ufp4", "mxfp4"}, *const modules[] = {"q", "k", "v", "o"};
static const char *const notes[] = {"zero", "one", "two"};
static const int64_t boundaries[] = {3, 2, 0}, weights[] = {7, 8, 9, 10};
static char path[64];

static double value_of(size_t cell) { return 0.5 + 3 * (double)cell; }

/* A group of three axes with one array over all of them, and some over one or two; beside it a table and texts alone. */
static void write_file(void) {
    struct nib_result *file = NULL;
    struct nib_error error;
    double values[CELLS], parts[LAYERS * RECIPES];
    for (size_t i = 0; i < CELLS; i++) values[i] = value_of(i);
    for (size_t i = 0; i < LAYERS * RECIPES; i++) parts[i] = 100 + (double)i; /* layer first, unlike the widest */
    snprintf(path, sizeof path, "/tmp/nibble-grid-%d.h5", (int)getpid());
    bool done = nib_result_open(path, "a title", &file, &error) == NIB_OK;
    done = done && nib_result_text_scale(file, "grid", "recipe", "recipe", recipes, RECIPES, &error) == NIB_OK;
    done = done && nib_result_integer_scale(file, "grid", "boundary", "1", "layers below", boundaries, LAYERS, &error) == NIB_OK;
    done = done && nib_result_text_scale(file, "grid", "module", "module", modules, MODULES, &error) == NIB_OK;
    const struct nib_result_array arrays[] = {
        {.group = "grid", .name = "weight", .units = "1", .type = NIB_RESULT_I64, .rank = 1, .scales = {"module"}, .data = weights},
        {.group = "grid", .name = "part", .units = "1", .type = NIB_RESULT_F64, .rank = 2, .scales = {"boundary", "recipe"}, .data = parts},
        {.group = "grid", .name = "gain", .units = "dB", .long_name = "a gain", .type = NIB_RESULT_F64, .rank = 3,
         .scales = {"recipe", "boundary", "module"}, .data = values},
        {.group = "grid", .name = "note", .type = NIB_RESULT_TEXT, .rank = 1, .scales = {"boundary"}, .data = notes}};
    for (size_t i = 0; done && i < 4; i++) done = nib_result_array(file, &arrays[i], &error) == NIB_OK;
    done = done && nib_result_text_scale(file, "names", "module", "module", modules, MODULES, &error) == NIB_OK;
    struct nib_provenance *provenance = NULL;
    done = done && nib_provenance_new(&provenance, &error) == NIB_OK;
    CU_ASSERT_FATAL(done && nib_result_commit(file, provenance, &error) == NIB_OK);
    nib_provenance_free(provenance);
}

static size_t column(const struct nib_table *table, const char *name) {
    size_t at = SIZE_MAX;
    CU_ASSERT_FATAL(nib_table_find_column(table, name, &at));
    return at;
}

static void every_cell_has_its_coordinates(void) {
    struct nib_stored_table stored;
    struct nib_error error = {NIB_OK, 0, "", ""};
    write_file();
    enum nib_status status = nib_stored_table_read(path, "grid", &stored, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    if (status != NIB_OK) return;
    const struct nib_table *t = stored.table;
    CU_ASSERT(stored.axes == 3 && strcmp(stored.title, "a title") == 0);
    CU_ASSERT_FATAL(nib_table_rows(t) == CELLS && nib_table_columns(t) == 8);
    CU_ASSERT(column(t, "recipe") == 1 && column(t, "boundary") == 2 && column(t, "module") == 3);
    CU_ASSERT(strcmp(nib_table_column(t, column(t, "gain"))->units, "dB") == 0);
    CU_ASSERT(strcmp(nib_table_column(t, column(t, "boundary"))->long_name, "layers below") == 0);
    for (size_t i = 0; i < CELLS; i++) {
        size_t recipe = i / (LAYERS * MODULES), layer = i / MODULES % LAYERS, module = i % MODULES;
        CU_ASSERT(nib_table_integer(t, i, 0) == (int64_t)i);
        CU_ASSERT(strcmp(nib_table_text(t, i, 1), recipes[recipe]) == 0);
        CU_ASSERT(nib_table_integer(t, i, 2) == boundaries[layer]);
        CU_ASSERT(strcmp(nib_table_text(t, i, 3), modules[module]) == 0);
        CU_ASSERT(nib_table_real(t, i, column(t, "gain")) == value_of(i));
        CU_ASSERT(nib_table_real(t, i, column(t, "part")) == 100 + (double)(layer * RECIPES + recipe));
        CU_ASSERT(nib_table_integer(t, i, column(t, "weight")) == weights[module]);
        CU_ASSERT(strcmp(nib_table_text(t, i, column(t, "note")), notes[layer]) == 0);
    }
    nib_stored_table_free(&stored);
    unlink(path);
}

static void the_first_group_of_numbers_is_read_by_default(void) {
    struct nib_stored_table stored;
    struct nib_error error = {NIB_OK, 0, "", ""};
    write_file();
    CU_ASSERT_FATAL(nib_stored_table_read(path, NULL, &stored, &error) == NIB_OK);
    CU_ASSERT(strcmp(nib_table_name(stored.table), "grid") == 0);
    nib_stored_table_free(&stored);
    unlink(path);
}

static void texts_alone_are_no_table(void) {
    struct nib_stored_table stored;
    struct nib_error error = {NIB_OK, 0, "", ""};
    write_file();
    CU_ASSERT(nib_stored_table_read(path, "names", &stored, &error) == NIB_ENOTFOUND);
    NIB_CHECKF(strstr(error.text, "has no table \"names\"; there is grid") != NULL, "%s", error.text);
    unlink(path);
}

NIB_TEST_MAIN("grids of result files", {"every cell has its coordinates", every_cell_has_its_coordinates},
              {"the first group of numbers is read by default", the_first_group_of_numbers_is_read_by_default},
              {"texts alone are no table", texts_alone_are_no_table})
