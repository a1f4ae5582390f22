#include "io/npy_header.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>

/* The header is a Python dictionary display: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. */
struct cursor {
    const char *at, *end;
};

static void skip_blanks(struct cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\n' ||
                                        *cursor->at == '\r'))
        cursor->at++;
}

static bool take(struct cursor *cursor, char letter) {
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != letter) return false;
    cursor->at++;
    return true;
}

static bool take_word(struct cursor *cursor, const char *word) {
    size_t length = strlen(word);
    skip_blanks(cursor);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) return false;
    cursor->at += length;
    return true;
}

/* A quoted string without escapes of less than `size` letters. */
static bool take_string(struct cursor *cursor, char *out, size_t size) {
    skip_blanks(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) return false;
    char quote = *cursor->at++;
    size_t length = 0;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        unsigned char letter = (unsigned char)*cursor->at++;
        if (letter == '\\' || letter < 0x20 || letter > 0x7e || length + 1 >= size) return false;
        out[length++] = (char)letter;
    }
    out[length] = '\0';
    return cursor->at < cursor->end && *cursor->at++ == quote;
}

static bool take_number(struct cursor *cursor, uint64_t *out) {
    skip_blanks(cursor);
    const char *start = cursor->at;
    uint64_t value = 0;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*cursor->at - '0'), &value))
            return false;
    if (cursor->at == start) return false;
    if (cursor->at < cursor->end && *cursor->at == 'L') cursor->at++; /* Python 2 wrote 3L */
    *out = value;
    return true;
}

struct place {
    const char *path, *member;
    struct nib_error *error;
};

static enum nib_status refuse(const struct place *place, enum nib_status status, const char *text) {
    char shown[80];
    if (place->member[0] == '\0') return nib_fail_at(place->error, status, place->path, 0, "%s", text);
    return nib_fail_at(place->error, status, place->path, 0, "member \"%s\": %s", nib_printable(place->member, shown),
                       text);
}

static enum nib_status read_shape(struct cursor *cursor, struct nib_entry *entry, const struct place *place) {
    if (!take(cursor, '(')) return refuse(place, NIB_ESYNTAX, "npy header: shape is not a tuple of integers");
    while (!take(cursor, ')')) {
        if (entry->rank == NIB_ENTRY_RANK)
            return refuse(place, NIB_ESYNTAX, "npy header: more than 8 dimensions are not supported");
        if (!take_number(cursor, &entry->shape[entry->rank]))
            return refuse(place, NIB_ESYNTAX, "npy header: shape is not a tuple of integers");
        entry->rank++;
        if (!take(cursor, ',')) {
            if (!take(cursor, ')')) return refuse(place, NIB_ESYNTAX, "npy header: shape is not a tuple of integers");
            break;
        }
    }
    return NIB_OK;
}

/* Byte order, kind and size: "<f4", "|u1", "|V2", "<U7" (characters of 4 bytes). */
static enum nib_status read_descr(const char *descr, struct nib_entry *entry, const struct place *place) {
    char text[160];
    uint64_t size = 0;
    struct cursor cursor = {descr + 2, descr + strlen(descr)};
    if (strlen(descr) < 3 || strchr("<>|=", descr[0]) == NULL || strchr("biufcVSUmM", descr[1]) == NULL ||
        !take_number(&cursor, &size) || size > 1 << 20) {
        if (strlen(descr) >= 2 && descr[1] == 'O')
            return refuse(place, NIB_ESYNTAX, "holds pickled Python objects (dtype 'O'), which are not read");
        snprintf(text, sizeof text, "npy header: unknown dtype '%s'", descr);
        return refuse(place, NIB_ESYNTAX, text);
    }
    if (descr[0] == '>' && size > 1) {
        snprintf(text, sizeof text, "is big-endian (dtype '%s'); write it little-endian, as with a.astype('<%s')", descr,
                 descr + 1);
        return refuse(place, NIB_ESYNTAX, text);
    }
    snprintf(entry->dtype, sizeof entry->dtype, "%s", descr);
    entry->item_bytes = (unsigned)(descr[1] == 'U' ? 4 * size : size);
    if (descr[1] == 'f' && size == 4) entry->storage = NIB_STORED_F32;
    if (descr[1] == 'f' && size == 2) entry->storage = NIB_STORED_F16;
    if (descr[1] == 'f' && size == 8) entry->storage = NIB_STORED_F64;
    if (descr[1] == 'V' && size == 2) entry->storage = NIB_STORED_BF16; /* what ml_dtypes writes for bfloat16 */
    return NIB_OK;
}

static enum nib_status read_dictionary(struct cursor *cursor, struct nib_entry *entry, const struct place *place) {
    char key[24], descr[sizeof entry->dtype];
    bool has_descr = false, has_order = false, has_shape = false;
    enum nib_status status;
    if (!take(cursor, '{')) return refuse(place, NIB_ESYNTAX, "npy header is not a Python dictionary");
    while (!take(cursor, '}')) {
        if (!take_string(cursor, key, sizeof key) || !take(cursor, ':'))
            return refuse(place, NIB_ESYNTAX, "npy header is not a Python dictionary");
        if (strcmp(key, "descr") == 0 && !has_descr) {
            has_descr = true;
            if (take(cursor, '['))
                return refuse(place, NIB_ESYNTAX, "holds a structured array, which is not read; save one field alone");
            if (!take_string(cursor, descr, sizeof descr))
                return refuse(place, NIB_ESYNTAX, "npy header: descr is not a dtype string");
            if ((status = read_descr(descr, entry, place)) != NIB_OK) return status;
        } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
            has_order = true;
            entry->fortran_order = take_word(cursor, "True");
            if (!entry->fortran_order && !take_word(cursor, "False"))
                return refuse(place, NIB_ESYNTAX, "npy header: fortran_order is neither True nor False");
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            has_shape = true;
            if ((status = read_shape(cursor, entry, place)) != NIB_OK) return status;
        } else {
            return refuse(place, NIB_ESYNTAX, "npy header: a key is unknown or given twice");
        }
        if (!take(cursor, ',') && (cursor->at == cursor->end || *cursor->at != '}'))
            return refuse(place, NIB_ESYNTAX, "npy header is not a Python dictionary");
    }
    skip_blanks(cursor);
    if (cursor->at != cursor->end) return refuse(place, NIB_ESYNTAX, "npy header: text after the dictionary");
    if (!has_descr || !has_order || !has_shape)
        return refuse(place, NIB_ESYNTAX, "npy header: descr, fortran_order or shape is missing");
    return NIB_OK;
}

enum nib_status nib_npy_header_read(const uint8_t *bytes, uint64_t available, const char *path, const char *member,
                                    struct nib_entry *entry, uint64_t *header_length, struct nib_error *error) {
    const struct place place = {path, member, error};
    if (available < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return refuse(&place, NIB_ESYNTAX, available < 10 ? "is truncated: no whole npy header" : "is not an npy array");
    unsigned major = bytes[6];
    if (major < 1 || major > 3) return refuse(&place, NIB_ESYNTAX, "npy format version is not 1, 2 or 3");
    uint64_t prefix = major == 1 ? 10 : 12;
    if (available < prefix) return refuse(&place, NIB_ESYNTAX, "is truncated: no whole npy header");
    uint64_t length = bytes[8] | (uint64_t)bytes[9] << 8;
    if (major > 1) length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (length > NIB_NPY_LARGEST_HEADER) return refuse(&place, NIB_ESYNTAX, "npy header is longer than 65536 bytes");
    if (length > available - prefix) return refuse(&place, NIB_ESYNTAX, "is truncated: no whole npy header");
    struct cursor cursor = {(const char *)bytes + prefix, (const char *)bytes + prefix + length};
    enum nib_status status = read_dictionary(&cursor, entry, &place);
    if (status != NIB_OK) return status;
    if (!nib_entry_count(entry) || __builtin_mul_overflow(entry->elements, entry->item_bytes, &entry->bytes))
        return refuse(&place, NIB_EINCONSISTENT, "npy header: the shape overflows 64 bits");
    *header_length = prefix + length;
    return NIB_OK;
}
