#include "base/axis.h"

#include <nibble/tensor.h>
#include <stddef.h>

const char *const nib_axis_names[] = {[NIB_ALONG_COLS] = "cols", [NIB_ALONG_ROWS] = "rows", NULL};
