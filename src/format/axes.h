/* The axes of quantizers as data: enums, the record that holds one choice of each, and the tables
 * behind `--set`, `show axes/NAME` and the YAML files. Generated from axes.def. */
#ifndef NIB_FORMAT_AXES_H
#define NIB_FORMAT_AXES_H

#include <math.h>
#include <nibble/quantizer.h>

/* enum nib_axis_<name> per axis */
#define NIB_AXIS(axis, applies, what) enum nib_axis_##axis {
#define NIB_CHOICE(constant, name, applies, what) constant,
#define NIB_AXIS_END(axis)                                                                                             \
    NIB_AXIS_##axis##_COUNT                                                                                            \
    }                                                                                                                  \
    ;
#define NIB_NUMBER(axis, applies, fallback, what)
#include "format/axes.def"
#undef NIB_AXIS
#undef NIB_CHOICE
#undef NIB_AXIS_END
#undef NIB_NUMBER

/* One value of every axis: an enumerator of its own type for choices, a binary32 for numbers. */
struct nib_axes {
#define NIB_AXIS(axis, applies, what) int axis;
#define NIB_CHOICE(constant, name, applies, what)
#define NIB_AXIS_END(axis)
#define NIB_NUMBER(axis, applies, fallback, what) float axis;
#include "format/axes.def"
#undef NIB_AXIS
#undef NIB_CHOICE
#undef NIB_AXIS_END
#undef NIB_NUMBER
};

enum nib_applies {
    NIB_APPLIES_ANY,
    NIB_APPLIES_TENSOR,
    NIB_APPLIES_NO_TENSOR,
    NIB_APPLIES_E8M0,
    NIB_APPLIES_NOT_E8M0,
    NIB_APPLIES_SR,
    NIB_APPLIES_SELECT,
    NIB_APPLIES_SR_BITS,
    NIB_APPLIES_E2M1_SR,
    NIB_APPLIES_E2M1,
    NIB_APPLIES_ONE_LINE,
    NIB_APPLIES_FLOOR_ADD,
    NIB_APPLIES_HIF4
};

struct nib_axis_choice {
    const char *name, *what;
    enum nib_applies applies;
};
struct nib_axis_info {
    const char *name, *what;
    enum nib_applies applies;
    bool is_number;
    size_t offset;                         /* in struct nib_axes */
    float fallback;                        /* of a number; NAN where it follows from the formats */
    const struct nib_axis_choice *choices; /* of a choice */
    size_t count;
};

extern const struct nib_axis_info nib_axis_table[];
extern const size_t nib_axis_count;

/* Whether the rounding axis asks for random bits. */
bool nib_axes_stochastic(const struct nib_axes *axes);
/* Bytes of the random integer of an element. */
unsigned nib_axes_random_bytes(const struct nib_axes *axes);
/* Whether a condition holds for a block format (SR and SELECT may hold for any), and in words ("the block format has a
 * tensor scale"). */
bool nib_axis_applies(enum nib_applies applies, const struct nib_block *block);
const char *nib_applies_text(enum nib_applies applies);

/* The first choice that applies, and the numbers' defaults. */
void nib_axes_default(struct nib_axes *axes, const struct nib_block *block);
/* Index of an axis by name, or nib_axis_count. */
size_t nib_axis_find(const char *name);
/* Copies one axis. */
void nib_axes_copy(struct nib_axes *to, const struct nib_axes *from, size_t index);
/* Whether the value of an axis applies to a block format. */
bool nib_axes_hold(const struct nib_axes *axes, size_t index, const struct nib_block *block);
/* Sets one axis from text; errors say what was expected. `file` may be "" and `line` 0. */
enum nib_status nib_axes_set(struct nib_axes *axes, const struct nib_block *block, const char *axis, const char *value,
                             const char *file, int line, struct nib_error *error);
/* The value as text: the choice's name, or the number in `buffer` (locale-free, exact). */
enum { NIB_AXIS_TEXT = 24 };
const char *nib_axes_get(const struct nib_axes *axes, size_t index, char buffer[NIB_AXIS_TEXT]);

#endif
