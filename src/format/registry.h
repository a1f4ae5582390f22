/* Where formats come from: built-ins by name, files by path. */
#ifndef NIB_FORMAT_REGISTRY_H
#define NIB_FORMAT_REGISTRY_H

#include <stddef.h>
#include <nibble/status.h>

/* The i-th kind of built-ins ("elements", "scales", ...), and the i-th name of a kind; NULL past the end. */
const char *nib_registry_kind(size_t i);
const char *nib_registry_name(const char *kind, size_t i);
/* The nearest name of that kind, or NULL. */
const char *nib_registry_suggest(const char *kind, const char *name);

/* The text of one format. `name` is the built-in's name or the file's without folder and ".yaml";
 * `label` is what errors call it: "elements/e2m1", or the path. */
struct nib_registry_text {
    char name[40];
    char label[256];
    bool built_in;
    char *text; /* NUL-terminated; the caller frees it */
    size_t length;
};
/* `name_or_path` as in nib_element_open. NIB_ENOTFOUND suggests the nearest name and says how to give a file. */
enum nib_status nib_registry_read(const char *kind, const char *name_or_path, struct nib_registry_text *out,
                                  struct nib_error *error);
/* A relative path in the file `label` is meant from that file's folder; names and absolute paths stay. */
void nib_registry_resolve(const char *label, const char *name, char *out, size_t size);
/* Fills in `name` from a label: the last part of a path without ".yaml", cut to fit. */
void nib_registry_name_of(const char *label, char name[40]);

#endif
