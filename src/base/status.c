#include <stddef.h>

#include <nibble/status.h>

struct row {
    const char *name;
    int exit_code;
    const char *text;
};

static const struct row rows[] = {
#define ROW(name, exit_code, text) {"NIB_" #name, exit_code, text},
    NIB_STATUS_LIST(ROW)
#undef ROW
};

static const struct row *row_of(enum nib_status status) {
    static const struct row unknown = {"NIB_UNKNOWN", 3, "unknown status"};
    size_t index = (size_t)status;
    return index < sizeof rows / sizeof *rows ? &rows[index] : &unknown;
}

const char *nib_status_name(enum nib_status status) { return row_of(status)->name; }
const char *nib_status_text(enum nib_status status) { return row_of(status)->text; }
int nib_status_exit_code(enum nib_status status) { return row_of(status)->exit_code; }
