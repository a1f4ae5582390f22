#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtod obeys the caller's decimal comma, so the conversions run under a C locale of their own. */
static double convert(const char *text, char **end, bool single) {
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        *end = (char *)(uintptr_t)text;
        return 0;
    }
    locale_t saved = uselocale(c_locale);
    double value = single ? (double)strtof(text, end) : strtod(text, end);
    uselocale(saved);
    freelocale(c_locale);
    return value;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Sign, then a digit or a point followed by one: keeps out blanks, "nan", "inf" and "+1". */
static bool starts_like_a_number(const char *text) {
    if (*text == '-') text++;
    if (text[0] == '0' && is_digit(text[1])) return false; /* reads as octal elsewhere */
    return is_digit(text[0]) || (text[0] == '.' && is_digit(text[1]));
}

static bool parse(const char *text, bool single, double *out) {
    char *end;
    if (!starts_like_a_number(text)) return false;
    int saved_errno = errno;
    double value = convert(text, &end, single);
    errno = saved_errno;
    if (end == text || *end != '\0' || !isfinite(value)) return false;
    *out = value;
    return true;
}

bool nib_number_double(const char *text, double *out) { return parse(text, false, out); }

bool nib_number_float(const char *text, float *out) {
    double value;
    if (!parse(text, true, &value)) return false;
    *out = (float)value;
    return true;
}

/* The significant digits of a decimal without leading or trailing zeros, and the power of ten of the
 * first one. False for texts too long to hold. */
static bool significant_digits(const char *text, char digits[512], int *exponent) {
    size_t count = 0;
    int position = 0, power = 0;
    bool point = false;
    if (*text == '-') text++;
    for (; *text != '\0' && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (count > 0 || *text != '0') {
            if (count == 510) return false;
            digits[count++] = *text;
            if (!point) position++;
        } else if (point) {
            position--;
        }
    }
    if (*text != '\0') {
        int64_t value;
        const char *power_text = text[1] == '+' ? text + 2 : text + 1;
        if (!nib_number_integer(power_text, -400, 400, &value)) return false;
        power = (int)value;
    }
    while (count > 0 && digits[count - 1] == '0') count--;
    digits[count] = '\0';
    *exponent = count == 0 ? 0 : position + power;
    return true;
}

/* binary64 holds at least 13 hexadecimal digits exactly, and the caller compares it with binary32. */
static bool hexadecimal_fits(const char *text) {
    size_t count = 0;
    const char *c = strpbrk(text, "xX") + 1;
    for (; *c != '\0' && *c != 'p' && *c != 'P'; c++)
        if (*c != '.' && (count > 0 || *c != '0')) count++;
    return count <= 13;
}

/* Whether a decimal text is exactly `value`: printing the value with all its digits (a binary32
 * number has at most 149 fractional ones) and comparing the digit strings settles it. */
static bool decimal_equals(const char *text, float value) {
    char digits[2][512];
    int exponent[2];
    char printed[256];
    /* An integer times 2^-149 is exact in "%.149f" only where printf is exact, as glibc's is. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) return false;
    locale_t saved = uselocale(c_locale);
    snprintf(printed, sizeof printed, "%.149f", fabs((double)value));
    uselocale(saved);
    freelocale(c_locale);
    return significant_digits(text, digits[0], &exponent[0]) && significant_digits(printed, digits[1], &exponent[1]) &&
           exponent[0] == exponent[1] && strcmp(digits[0], digits[1]) == 0;
}

bool nib_number_exact_float(const char *text, float *out) {
    double value;
    if (!parse(text, false, &value)) return false;
    if ((double)(float)value != value) return false;
    bool hexadecimal = strpbrk(text, "xX") != NULL;
    if (hexadecimal ? !hexadecimal_fits(text) : !decimal_equals(text, (float)value)) return false;
    *out = (float)value;
    return true;
}

bool nib_number_integer(const char *text, int64_t low, int64_t high, int64_t *out) {
    const char *digits = *text == '-' ? text + 1 : text;
    if (!is_digit(digits[0]) || (digits[0] == '0' && digits[1] != '\0')) return false;
    for (const char *c = digits; *c != '\0'; c++)
        if (!is_digit(*c)) return false;
    int saved_errno = errno;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    bool overflow = errno == ERANGE;
    errno = saved_errno;
    if (overflow || value < low || value > high) return false;
    *out = value;
    return true;
}
