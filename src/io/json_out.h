/* Writing JSON as it is produced. Numbers carry 17 significant digits (binary64) or 9 (binary32); non-finite ones are
 * the strings "nan", "inf", "-inf". Members of the outermost object stand on lines of their own. Write errors are
 * remembered by the stream and seen by whoever flushes it.
 *
 *     struct nib_json *json;
 *     nib_json_begin(stdout, "nibble.round/1", &json, error);     opens the outermost object, with its "schema"
 *     nib_json_text(json, "format", "e2m1");
 *     nib_json_array(json, "codes"); ... nib_json_integer(json, NULL, 3); ... nib_json_close(json);
 *     nib_json_end(json);                                          closes what is open, and the writer
 *
 * Inside an array the key is NULL. */
#ifndef NIB_IO_JSON_OUT_H
#define NIB_IO_JSON_OUT_H

#include <nibble/table.h>
#include <stddef.h>
#include <stdio.h>

struct nib_json;

NIB_CHECK enum nib_status nib_json_begin(FILE *stream, const char *schema, struct nib_json **out,
                                         struct nib_error *error);
void nib_json_end(struct nib_json *json);

void nib_json_object(struct nib_json *json, const char *key);
void nib_json_array(struct nib_json *json, const char *key);
void nib_json_close(struct nib_json *json); /* the innermost open object or array */

void nib_json_text(struct nib_json *json, const char *key, const char *value);
void nib_json_integer(struct nib_json *json, const char *key, int64_t value);
void nib_json_unsigned(struct nib_json *json, const char *key, uint64_t value);
void nib_json_bool(struct nib_json *json, const char *key, bool value);
void nib_json_real(struct nib_json *json, const char *key, double value);
void nib_json_float(struct nib_json *json, const char *key, float value);
void nib_json_null(struct nib_json *json, const char *key);

/* Whole arrays. */
void nib_json_sizes(struct nib_json *json, const char *key, const size_t *values, size_t count);
void nib_json_bytes(struct nib_json *json, const char *key, const uint8_t *values, size_t count); /* as integers */
void nib_json_floats(struct nib_json *json, const char *key, const float *values, size_t count);
void nib_json_hex(struct nib_json *json, const char *key, const uint8_t *bytes, size_t count); /* as one string */
/* An array of one object per row. A blank text or NAN cell is written as "" or "nan". */
void nib_json_table(struct nib_json *json, const char *key, const struct nib_table *table);

#endif
