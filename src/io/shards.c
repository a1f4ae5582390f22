/* A sharded set: a JSON index whose "weight_map" names the .safetensors file of every tensor. */
#include "io/entry.h"

#include "base/error.h"
#include "base/memory.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct shard {
    const char *name;            /* as the index spells it */
    struct nib_file part;        /* its tensors in file order */
    const struct nib_entry **sorted; /* the same by name */
};

static void drop_part(struct nib_file *part) {
    for (size_t i = 0; i < part->count; i++) free(part->entries[i].name);
    for (size_t i = 0; i < part->metadata_count; i++) free(part->metadata[i]);
    for (size_t i = 0; i < part->mapping_count; i++) nib_mapping_close(part->mappings[i]);
    free(part->entries);
    free(part->metadata);
    free(part->mappings);
}

static int by_name(const void *left, const void *right) {
    return strcmp((*(const struct nib_entry *const *)left)->name, (*(const struct nib_entry *const *)right)->name);
}

static int name_against(const void *name, const void *entry) {
    return strcmp(name, (*(const struct nib_entry *const *)entry)->name);
}

/* Reads the shard and moves its mapping into `file`. */
static enum nib_status open_shard(struct nib_file *file, struct shard *shard, struct nib_error *error) {
    const char *index = file->mappings[0]->path;
    char shown[80];
    if (strchr(shard->name, '/') != NULL || shard->name[0] == '\0')
        return nib_fail_at(error, NIB_ESYNTAX, index, 0, "shard \"%s\" is not a plain file name beside the index",
                           nib_printable(shard->name, shown));
    const char *slash = strrchr(index, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - index) + 1;
    char *path = nib_alloc(folder + strlen(shard->name) + 1, 1, index, error);
    if (path == NULL) return NIB_ENOMEM;
    memcpy(path, index, folder);
    strcpy(path + folder, shard->name);
    struct nib_mapping *mapping;
    enum nib_status status = nib_mapping_open(path, &mapping, error);
    free(path);
    if (status != NIB_OK) return status;
    status = nib_file_adopt(&shard->part, mapping, error);
    if (status != NIB_OK) return status;
    status = nib_safetensors_read(&shard->part, error);
    if (status != NIB_OK) return status;
    shard->sorted = nib_alloc_raw(shard->part.count, sizeof *shard->sorted, index, error);
    if (shard->sorted == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < shard->part.count; i++) shard->sorted[i] = &shard->part.entries[i];
    qsort(shard->sorted, shard->part.count, sizeof *shard->sorted, by_name);
    shard->part.mapping_count = 0;
    return nib_file_adopt(file, mapping, error);
}

static struct shard *find_shard(struct shard *shards, size_t count, const char *name) {
    for (size_t i = count; i-- > 0;) /* neighbours in the index mostly share a shard */
        if (strcmp(shards[i].name, name) == 0) return &shards[i];
    return NULL;
}

static enum nib_status add_tensor(struct nib_file *file, const char *name, const struct shard *shard,
                                  struct nib_error *error) {
    char shown[80], shard_shown[80];
    const struct nib_entry *const *found =
        bsearch(name, shard->sorted, shard->part.count, sizeof *shard->sorted, name_against);
    if (found == NULL)
        return nib_fail_at(error, NIB_EINCONSISTENT, file->mappings[0]->path, 0,
                           "tensor \"%s\" is not in shard \"%s\", where the index has it", nib_printable(name, shown),
                           nib_printable(shard->name, shard_shown));
    struct nib_entry *entry = nib_file_add(file, name, (*found)->path, error);
    if (entry == NULL) return NIB_ENOMEM;
    char *own_name = entry->name;
    *entry = **found;
    entry->name = own_name;
    return NIB_OK;
}

static enum nib_status read_map(struct nib_file *file, json_t *map, struct shard *shards, size_t *count,
                                struct nib_error *error) {
    const char *name;
    json_t *value;
    char shown[80];
    json_object_foreach(map, name, value) {
        if (!json_is_string(value))
            return nib_fail_at(error, NIB_ESYNTAX, file->mappings[0]->path, 0,
                               "weight_map: tensor \"%s\" has no file name", nib_printable(name, shown));
        struct shard *shard = find_shard(shards, *count, json_string_value(value));
        enum nib_status status;
        if (shard == NULL) {
            shard = &shards[(*count)++];
            shard->name = json_string_value(value);
            if ((status = open_shard(file, shard, error)) != NIB_OK) return status;
        }
        if ((status = add_tensor(file, name, shard, error)) != NIB_OK) return status;
    }
    return NIB_OK;
}

enum nib_status nib_shards_read(struct nib_file *file, struct nib_error *error) {
    const struct nib_mapping *mapping = file->mappings[0];
    file->kind = "sharded safetensors";
    json_error_t why;
    json_t *index = json_loadb((const char *)mapping->data, (size_t)mapping->size, JSON_REJECT_DUPLICATES, &why);
    if (index == NULL) {
        char text[80];
        return nib_fail_at(error, NIB_ESYNTAX, mapping->path, why.line, "not a shard index: %s",
                           nib_printable(why.text, text));
    }
    json_t *map = json_object_get(index, "weight_map");
    enum nib_status status;
    if (!json_is_object(map)) {
        status = nib_fail_at(error, NIB_ESYNTAX, mapping->path, 0,
                             "is JSON without a \"weight_map\" object; expected model.safetensors.index.json");
    } else {
        size_t count = 0;
        struct shard *shards = nib_alloc(json_object_size(map), sizeof *shards, mapping->path, error);
        status = shards == NULL ? NIB_ENOMEM : read_map(file, map, shards, &count, error);
        for (size_t i = 0; i < count; i++) {
            drop_part(&shards[i].part);
            free(shards[i].sorted);
        }
        free(shards);
    }
    json_decref(index);
    return status;
}
