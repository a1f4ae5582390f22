/* What the two directions of blocks are called. */
#ifndef NIB_BASE_AXIS_H
#define NIB_BASE_AXIS_H

/* "cols", "rows", NULL: enum nib_axis. */
extern const char *const nib_axis_names[];

#endif
