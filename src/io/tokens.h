/* Tokens for a model: the bytes of a text, or an array of integers. */
#ifndef NIB_IO_TOKENS_H
#define NIB_IO_TOKENS_H

#include <nibble/status.h>
#include <stddef.h>

struct nib_tokens {
    size_t rows, cols; /* a text and a vector are one row */
    uint32_t *ids;
};

/* `locator` is a text, each byte of which is a token, or FILE[:tensor] of non-negative integers of up to 64 bits with
 * one or two dimensions (.npy, .npz, .safetensors). A file with a NUL among its first bytes is no text. A token at or
 * above `vocabulary` is an error that says where it is. */
NIB_CHECK enum nib_status nib_tokens_read(const char *locator, unsigned vocabulary, struct nib_tokens *out,
                                          struct nib_error *error);
void nib_tokens_clear(struct nib_tokens *tokens);

/* `sequences` x (length + 1) tokens: the beginnings of the first rows, or, of one row, pieces that follow each other
 * (the last target of one is the first token of the next). The caller frees *out. */
NIB_CHECK enum nib_status nib_tokens_sequences(const struct nib_tokens *tokens, size_t sequences, size_t length,
                                               uint32_t **out, struct nib_error *error);

#endif
