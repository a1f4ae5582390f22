/* Conversions of single numbers as real software does them: to a small float or to a power of two, with all that
 * implementations disagree about. Integers only. The list is conversions.def. */
#ifndef NIB_FORMAT_CONVERSION_H
#define NIB_FORMAT_CONVERSION_H

#include <stddef.h>
#include <nibble/status.h>

enum nib_direction {
    NIB_TO_NEAREST_EVEN,
    NIB_TO_NEAREST_AWAY,         /* ties away from zero */
    NIB_TOWARD_ZERO,
    NIB_TOWARD_PLUS,
    NIB_TOWARD_MINUS,
    NIB_TO_ODD                   /* what is not exact becomes the neighbour with an odd code */
};

/* What a negative number, -0 included, does to the code of a power of two. */
enum nib_minus { NIB_MINUS_IGNORED, NIB_MINUS_IS_NAN };

struct nib_conversion {
    const char *name, *source;
    enum nib_direction direction;
    /* Small floats: mantissa bits and bias; codes are magnitudes, to which sign_bit is added. */
    int mbits, bias;
    uint32_t sign_bit;           /* 8 or 0x80; 0 for powers of two (E8M0) */
    uint32_t max_code;           /* largest finite magnitude */
    uint32_t overflow_code;      /* of a finite number that rounds beyond it */
    uint32_t infinity_code;
    uint32_t nan_plus, nan_minus; /* whole codes */
    /* Powers of two. */
    uint32_t zero_code;
    enum nib_minus minus;
    bool wraps;                  /* below 2^-127 the exponent goes on downward, modulo 256; else it ends there */
    /* Where neither form does: the code of a number that is given by its bits. */
    uint32_t (*special)(uint32_t bits);
};

extern const struct nib_conversion nib_conversions[];
extern const size_t nib_conversion_count;

/* By name; NULL where there is none. */
const struct nib_conversion *nib_conversion_find(const char *name);
/* The code of a binary32 number. */
uint32_t nib_convert(const struct nib_conversion *conversion, uint32_t bits);

#endif
