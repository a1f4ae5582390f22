#include "core/view.h"

#include "base/error.h"

enum nib_status nib_view_check(struct nib_view x, struct nib_error *error) {
    if (x.data == NULL && x.rows != 0 && x.cols != 0) return nib_fail(error, NIB_EINVAL, "the input has no data");
    if (x.stride < x.cols)
        return nib_fail(error, NIB_EINVAL, "stride %zu is shorter than a row of %zu", x.stride, x.cols);
    if (x.dtype != NIB_F32 && x.dtype != NIB_BF16 && x.dtype != NIB_F16)
        return nib_fail(error, NIB_EINVAL, "the input is neither fp32 nor bf16 nor fp16");
    if (x.cols != 0 && x.rows > 1 && x.rows > SIZE_MAX / 8 / x.stride)
        return nib_fail(error, NIB_EINVAL, "%zu rows in strides of %zu are more than memory can address", x.rows, x.stride);
    return NIB_OK;
}

enum nib_status nib_axis_check(enum nib_axis axis, struct nib_error *error) {
    if (axis == NIB_ALONG_COLS || axis == NIB_ALONG_ROWS) return NIB_OK;
    return nib_fail(error, NIB_EINVAL, "the axis is %d; expected NIB_ALONG_COLS or NIB_ALONG_ROWS", (int)axis);
}
