/* What every entry point asks of a matrix that it is given. */
#ifndef NIB_CORE_VIEW_H
#define NIB_CORE_VIEW_H

#include <nibble/view.h>

enum nib_status nib_view_check(struct nib_view x, struct nib_error *error);
enum nib_status nib_axis_check(enum nib_axis axis, struct nib_error *error);

#endif
