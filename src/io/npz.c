/* .npz: a zip archive of .npy members, stored or deflated. Members are inflated when they are asked for. */
#include "io/npy_header.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <zip.h>

static enum nib_status refuse_zip(const struct nib_file *file, const char *member, zip_error_t *why,
                                  struct nib_error *error) {
    char shown[80], text[80];
    return nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "member \"%s\": %s", nib_printable(member, shown),
                       nib_printable(zip_error_strerror(why), text));
}

static enum nib_status open_archive(const struct nib_file *file, zip_t **out, struct nib_error *error) {
    zip_error_t why;
    char text[80];
    zip_error_init(&why);
    /* The mapped bytes, not the path: a file that is replaced meanwhile cannot mix with the old one. */
    zip_source_t *source =
        zip_source_buffer_create(file->mappings[0]->data, file->mappings[0]->size, 0, &why);
    zip_t *archive = source == NULL ? NULL : zip_open_from_source(source, ZIP_RDONLY, &why);
    enum nib_status status = NIB_OK;
    if (archive == NULL) {
        zip_source_free(source);
        status = nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "zip archive: %s",
                             nib_printable(zip_error_strerror(&why), text));
    }
    zip_error_fini(&why);
    *out = archive;
    return status;
}

/* Reads exactly `size` bytes. */
static bool read_whole(zip_file_t *stream, void *out, uint64_t size) {
    uint64_t done = 0;
    while (done < size) {
        zip_int64_t got = zip_fread(stream, (char *)out + done, size - done);
        if (got <= 0) return false;
        done += (uint64_t)got;
    }
    return true;
}

static enum nib_status read_member(struct nib_file *file, zip_t *archive, size_t index, struct nib_error *error) {
    zip_stat_t about;
    char shown[80];
    if (zip_stat_index(archive, index, 0, &about) != 0 || (about.valid & ZIP_STAT_SIZE) == 0 || about.name == NULL)
        return nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "zip archive: member %zu cannot be described", index);
    size_t length = strlen(about.name);
    if (length < 5 || strcmp(about.name + length - 4, ".npy") != 0) {
        const char *base = strrchr(about.name, '/');
        if (strcmp(base == NULL ? about.name : base + 1, "data.pkl") == 0)
            return nib_fail_at(error, NIB_ESYNTAX, file->path, 0,
                               "is a pickled PyTorch file, which is not read; convert it with "
                               "safetensors.torch.save_file(torch.load(FILE, weights_only=True), \"out.safetensors\")");
        return nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "member \"%s\" is not an .npy array",
                           nib_printable(about.name, shown));
    }
    if (zip_name_locate(archive, about.name, 0) != (zip_int64_t)index)
        return nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "member \"%s\" is there twice",
                           nib_printable(about.name, shown));
    zip_file_t *stream = zip_fopen_index(archive, index, 0);
    if (stream == NULL) return refuse_zip(file, about.name, zip_get_error(archive), error);
    uint64_t wanted = about.size < NIB_NPY_LARGEST_HEADER + 12 ? about.size : NIB_NPY_LARGEST_HEADER + 12;
    uint8_t *head = nib_alloc_raw((size_t)wanted, 1, file->path, error);
    enum nib_status status = NIB_ENOMEM;
    if (head != NULL) {
        if (!read_whole(stream, head, wanted)) {
            status = refuse_zip(file, about.name, zip_file_get_error(stream), error);
        } else {
            char *name = strndup(about.name, length - 4);
            struct nib_entry *entry = name == NULL ? NULL : nib_file_add(file, name, file->path, error);
            uint64_t start;
            free(name);
            if (entry != NULL) {
                entry->location = index;
                status = nib_npy_header_read(head, wanted, file->path, about.name, entry, &start, error);
                if (status == NIB_OK && entry->bytes != about.size - start)
                    status = nib_fail_at(error, NIB_EINCONSISTENT, file->path, 0,
                                         "member \"%s\": the array needs %llu bytes, %llu are there",
                                         nib_printable(about.name, shown), (unsigned long long)entry->bytes,
                                         (unsigned long long)(about.size - start));
            }
        }
        free(head);
    }
    zip_fclose(stream);
    return status;
}

static enum nib_status load_member(struct nib_file *file, struct nib_entry *entry, struct nib_error *error) {
    zip_t *archive;
    zip_stat_t about;
    enum nib_status status = open_archive(file, &archive, error);
    if (status != NIB_OK) return status;
    uint8_t *bytes = NULL;
    if (zip_stat_index(archive, entry->location, 0, &about) != 0)
        status = refuse_zip(file, entry->name, zip_get_error(archive), error);
    else if ((bytes = nib_alloc_raw((size_t)about.size, 1, file->path, error)) == NULL)
        status = NIB_ENOMEM;
    zip_file_t *stream = status == NIB_OK ? zip_fopen_index(archive, entry->location, 0) : NULL;
    char extra;
    if (status == NIB_OK && stream == NULL) status = refuse_zip(file, entry->name, zip_get_error(archive), error);
    if (status == NIB_OK && !read_whole(stream, bytes, about.size))
        status = refuse_zip(file, entry->name, zip_file_get_error(stream), error);
    /* The end of the member is where its checksum is compared. */
    if (status == NIB_OK && zip_fread(stream, &extra, 1) != 0)
        status = refuse_zip(file, entry->name, zip_file_get_error(stream), error);
    if (stream != NULL) zip_fclose(stream);
    zip_discard(archive);
    if (status == NIB_OK) {
        memmove(bytes, bytes + (about.size - entry->bytes), (size_t)entry->bytes); /* over the header */
        entry->owned = bytes;
    } else {
        free(bytes);
    }
    return status;
}

enum nib_status nib_npz_read(struct nib_file *file, struct nib_error *error) {
    zip_t *archive;
    file->kind = "npz";
    file->load = load_member;
    enum nib_status status = open_archive(file, &archive, error);
    if (status != NIB_OK) return status;
    zip_int64_t members = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < members && status == NIB_OK; i++) status = read_member(file, archive, (size_t)i, error);
    zip_discard(archive);
    return status;
}
