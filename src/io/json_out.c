#include "io/json_out.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { DEEPEST = 32 };

struct nib_json {
    FILE *stream;
    locale_t c_locale; /* numbers are written with a point, whatever the caller's locale */
    unsigned depth;
    char closing[DEEPEST];
    bool empty[DEEPEST];
};

/* jansson knows how to escape; a text that is not UTF-8 has its bytes above 0x7F replaced. */
static void write_text(struct nib_json *json, const char *text) {
    json_t *value = json_string(text);
    if (value == NULL) {
        size_t length = strlen(text);
        char *plain = malloc(length + 1);
        if (plain == NULL) return;
        for (size_t i = 0; i <= length; i++) plain[i] = (unsigned char)text[i] > 0x7F ? '?' : text[i];
        value = json_string(plain);
        free(plain);
    }
    if (json_dumpf(value, json->stream, JSON_ENCODE_ANY) != 0) fputs("\"\"", json->stream);
    json_decref(value);
}

static void lead(struct nib_json *json, const char *key) {
    if (!json->empty[json->depth]) fputc(',', json->stream);
    if (json->depth == 1)
        fputs("\n  ", json->stream);
    else if (!json->empty[json->depth])
        fputc(' ', json->stream);
    json->empty[json->depth] = false;
    if (key == NULL) return;
    write_text(json, key);
    fputs(": ", json->stream);
}

static void open_level(struct nib_json *json, char opening, char closing) {
    fputc(opening, json->stream);
    if (json->depth + 1 < DEEPEST) json->depth++;
    json->closing[json->depth] = closing;
    json->empty[json->depth] = true;
}

enum nib_status nib_json_begin(FILE *stream, const char *schema, struct nib_json **out, struct nib_error *error) {
    struct nib_json *json = nib_alloc(1, sizeof *json, "JSON writer", error);
    if (json == NULL) return NIB_ENOMEM;
    json->stream = stream;
    json->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (json->c_locale == (locale_t)0) {
        free(json);
        return nib_fail(error, NIB_ENOMEM, "JSON writer: out of memory");
    }
    open_level(json, '{', '}');
    nib_json_text(json, "schema", schema);
    *out = json;
    return NIB_OK;
}

void nib_json_end(struct nib_json *json) {
    while (json->depth > 0) nib_json_close(json);
    fputc('\n', json->stream);
    freelocale(json->c_locale);
    free(json);
}

void nib_json_object(struct nib_json *json, const char *key) {
    lead(json, key);
    open_level(json, '{', '}');
}

void nib_json_array(struct nib_json *json, const char *key) {
    lead(json, key);
    open_level(json, '[', ']');
}

void nib_json_close(struct nib_json *json) {
    if (json->depth == 1) fputc('\n', json->stream);
    fputc(json->closing[json->depth], json->stream);
    json->depth--;
}

void nib_json_text(struct nib_json *json, const char *key, const char *value) {
    lead(json, key);
    write_text(json, value);
}

void nib_json_integer(struct nib_json *json, const char *key, int64_t value) {
    lead(json, key);
    fprintf(json->stream, "%lld", (long long)value);
}

void nib_json_unsigned(struct nib_json *json, const char *key, uint64_t value) {
    lead(json, key);
    fprintf(json->stream, "%llu", (unsigned long long)value);
}

void nib_json_bool(struct nib_json *json, const char *key, bool value) {
    lead(json, key);
    fputs(value ? "true" : "false", json->stream);
}

void nib_json_null(struct nib_json *json, const char *key) {
    lead(json, key);
    fputs("null", json->stream);
}

static void write_number(struct nib_json *json, double value, int digits) {
    if (isnan(value)) {
        fputs("\"nan\"", json->stream);
    } else if (isinf(value)) {
        fputs(value > 0 ? "\"inf\"" : "\"-inf\"", json->stream);
    } else if (value == 0) { /* "-0" would be an integer for many readers, and lose its sign */
        fputs(signbit(value) ? "-0.0" : "0", json->stream);
    } else {
        locale_t saved = uselocale(json->c_locale);
        fprintf(json->stream, "%.*g", digits, value);
        uselocale(saved);
    }
}

void nib_json_real(struct nib_json *json, const char *key, double value) {
    lead(json, key);
    write_number(json, value, 17);
}

void nib_json_float(struct nib_json *json, const char *key, float value) {
    lead(json, key);
    write_number(json, (double)value, 9);
}

void nib_json_sizes(struct nib_json *json, const char *key, const size_t *values, size_t count) {
    nib_json_array(json, key);
    for (size_t i = 0; i < count; i++) nib_json_unsigned(json, NULL, values[i]);
    nib_json_close(json);
}

void nib_json_bytes(struct nib_json *json, const char *key, const uint8_t *values, size_t count) {
    nib_json_array(json, key);
    for (size_t i = 0; i < count; i++) nib_json_unsigned(json, NULL, values[i]);
    nib_json_close(json);
}

void nib_json_floats(struct nib_json *json, const char *key, const float *values, size_t count) {
    nib_json_array(json, key);
    for (size_t i = 0; i < count; i++) nib_json_float(json, NULL, values[i]);
    nib_json_close(json);
}

void nib_json_hex(struct nib_json *json, const char *key, const uint8_t *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    lead(json, key);
    fputc('"', json->stream);
    for (size_t i = 0; i < count; i++) {
        fputc(digits[bytes[i] >> 4], json->stream);
        fputc(digits[bytes[i] & 15], json->stream);
    }
    fputc('"', json->stream);
}
