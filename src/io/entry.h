/* What an open file is made of: mappings, tensors, and the text pairs that came with them. Readers fill it
 * in; file.c answers questions about it. */
#ifndef NIB_IO_ENTRY_H
#define NIB_IO_ENTRY_H

#include <nibble/tensor.h>

#include "io/mapping.h"
#include "io/text.h"

enum { NIB_ENTRY_RANK = 8 };

/* How the bytes of a tensor can be viewed as numbers; NIB_STORED_BYTES only as bytes. */
enum nib_storage { NIB_STORED_BYTES, NIB_STORED_F32, NIB_STORED_BF16, NIB_STORED_F16, NIB_STORED_F64 };

struct nib_entry {
    char *name;
    char dtype[24];              /* as the file calls it */
    enum nib_storage storage;
    unsigned rank;
    uint64_t shape[NIB_ENTRY_RANK];
    uint64_t elements, bytes;    /* logical elements; bytes in the file */
    unsigned item_bytes;         /* 0 where elements share bytes */
    bool fortran_order;
    const uint8_t *data;         /* in a mapping; NULL until loaded */
    size_t location;             /* where the file's loader finds it */
    const char *path;            /* of the file that holds it; owned by a mapping or by the nib_file */
    void *owned;                 /* loaded, reordered or aligned copy of the bytes */
    float *cast;                 /* binary32 copy of an F64 tensor */
};

struct nib_file {
    char *path;
    const char *kind;            /* "safetensors", "npy", ... */
    struct nib_mapping **mappings;
    size_t mapping_count;
    struct nib_entry *entries;
    size_t count, capacity;
    char **metadata;             /* key, value, key, value, ... */
    size_t metadata_count, metadata_capacity; /* strings, not pairs */
    /* Fetches the bytes of an entry whose data is NULL into entry->owned. */
    enum nib_status (*load)(struct nib_file *file, struct nib_entry *entry, struct nib_error *error);
};

/* A blank entry at the end, its name copied; NULL with the error set when out of memory. The pointer is
 * valid until the next call. */
struct nib_entry *nib_file_add(struct nib_file *file, const char *name, const char *path, struct nib_error *error);
/* Takes the mapping over, also on failure. */
enum nib_status nib_file_adopt(struct nib_file *file, struct nib_mapping *mapping, struct nib_error *error);
enum nib_status nib_file_add_metadata(struct nib_file *file, const char *key, const char *value, struct nib_error *error);
const char *nib_file_kind(const struct nib_file *file);
/* The value of a metadata key, NULL without one. */
const char *nib_file_metadata(const struct nib_file *file, const char *key);

/* nib_mapping_release for data of a view of this file; copies that the file made stay. */
void nib_file_release(const struct nib_file *file, const void *data, uint64_t bytes);

/* Sets entry->elements to the product of the shape; false when it overflows. */
bool nib_entry_count(struct nib_entry *entry);

/* The readers. Each takes a nib_file without entries whose first mapping is the whole file (of a sharded set, its
 * index). */
enum nib_status nib_safetensors_read(struct nib_file *file, struct nib_error *error);
enum nib_status nib_shards_read(struct nib_file *file, struct nib_error *error);
enum nib_status nib_npy_read(struct nib_file *file, struct nib_error *error);
enum nib_status nib_npz_read(struct nib_file *file, struct nib_error *error);
enum nib_status nib_hdf5_read(struct nib_file *file, struct nib_error *error);
enum nib_status nib_gguf_read(struct nib_file *file, struct nib_error *error);

#endif
