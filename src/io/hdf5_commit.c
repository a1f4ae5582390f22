/* Result files: opening, attributes, provenance, and the way to disk. */
#include "io/hdf5_out.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/path.h"
#include "io/hdf5_handle.h"
#include "io/hdf5_result.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static hid_t create_in_memory(const char *path) {
    enum { GROWTH = 4 << 20 };
    unsigned order = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE), file = -1;
    if (access >= 0 && creation >= 0 && H5Pset_fapl_core(access, GROWTH, false) >= 0 &&
        H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110) >= 0 &&
        H5Pset_link_creation_order(creation, order) >= 0 && H5Pset_attr_creation_order(creation, order) >= 0 &&
        H5Pset_obj_track_times(creation, false) >= 0)
        file = H5Fcreate(path, H5F_ACC_TRUNC, creation, access);
    if (access >= 0) H5Pclose(access);
    if (creation >= 0) H5Pclose(creation);
    return file;
}

enum nib_status nib_result_open(const char *path, const char *title, struct nib_result **out, struct nib_error *error) {
    enum nib_status status = nib_path_check_target(path, error);
    if (status != NIB_OK) return status;
    struct nib_result *result = nib_alloc(1, sizeof *result, path, error);
    if (result == NULL) return NIB_ENOMEM;
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    result->file = -1;
    /* A link keeps pointing where it pointed: the file behind it is replaced. */
    result->path = realpath(path, NULL);
    if (result->path == NULL) result->path = strdup(path);
    if (result->path == NULL)
        status = nib_fail(error, NIB_ENOMEM, "out of memory");
    else if ((result->file = create_in_memory(path)) < 0 ||
             !nib_hdf5_text_attribute(result->file, "title", title))
        status = nib_hdf5_fail(error, path, "cannot start a file");
    nib_hdf5_quiet_leave(quiet);
    if (status != NIB_OK) {
        nib_result_abandon(result);
        return status;
    }
    *out = result;
    return NIB_OK;
}

void nib_result_abandon(struct nib_result *result) {
    if (result == NULL) return;
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    if (result->file >= 0) H5Fclose(result->file);
    nib_hdf5_quiet_leave(quiet);
    free(result->path);
    free(result);
}

/* Opens a group, or a dataset in it; negative on failure. */
static hid_t open_object(const struct nib_result *result, const char *group, const char *name) {
    hid_t folder = nib_hdf5_group(result->file, group);
    if (folder < 0 || name == NULL) return folder;
    hid_t dataset = H5Dopen2(folder, name, H5P_DEFAULT);
    H5Gclose(folder);
    return dataset;
}

static enum nib_status set_attribute(struct nib_result *result, const char *group, const char *name,
                                     const char *attribute, hid_t type, const void *value, struct nib_error *error) {
    struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
    hid_t object = open_object(result, group, name);
    bool done = object >= 0 && (type < 0 ? nib_hdf5_text_attribute(object, attribute, value)
                                         : nib_hdf5_attribute(object, attribute, type, value));
    enum nib_status status = done ? NIB_OK : nib_hdf5_fail(error, result->path, attribute);
    if (object >= 0) H5Oclose(object);
    nib_hdf5_quiet_leave(quiet);
    return status;
}

enum nib_status nib_result_text_attribute(struct nib_result *result, const char *group, const char *name,
                                          const char *attribute, const char *value, struct nib_error *error) {
    return set_attribute(result, group, name, attribute, -1, value, error);
}

enum nib_status nib_result_integer_attribute(struct nib_result *result, const char *group, const char *name,
                                             const char *attribute, int64_t value, struct nib_error *error) {
    return set_attribute(result, group, name, attribute, H5T_NATIVE_INT64, &value, error);
}

enum nib_status nib_result_real_attribute(struct nib_result *result, const char *group, const char *name,
                                          const char *attribute, double value, struct nib_error *error) {
    return set_attribute(result, group, name, attribute, H5T_NATIVE_DOUBLE, &value, error);
}

static enum nib_status write_provenance(struct nib_result *result, const struct nib_provenance *provenance,
                                        struct nib_error *error) {
    struct nib_provenance_facts facts;
    enum nib_status status = nib_provenance_facts(provenance, &facts, error);
    if (status != NIB_OK) return status;
    char source[160];
    char *history = nib_alloc(strlen(facts.time) + strlen(facts.command_line) + 2, 1, "history", error);
    if (history == NULL) return NIB_ENOMEM;
    snprintf(source, sizeof source, "nibble %s (%s)", facts.version, facts.commit);
    sprintf(history, "%s %s", facts.time, facts.command_line);
    const struct {
        const char *group, *name, *value;
    } texts[] = {{"", "source", source}, {"", "history", history}, {"provenance", "version", facts.version},
                 {"provenance", "commit", facts.commit}, {"provenance", "command_line", facts.command_line},
                 {"provenance", "time", facts.time}, {"provenance", "cpu", facts.cpu},
                 {"provenance", "instruction_set", facts.isa}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts && status == NIB_OK; i++)
        status = nib_result_text_attribute(result, texts[i].group, NULL, texts[i].name, texts[i].value, error);
    free(history);
    if (status == NIB_OK)
        status = nib_result_integer_attribute(result, "provenance", NULL, "threads", facts.threads, error);
    if (status == NIB_OK) status = nib_result_integer_attribute(result, "provenance", NULL, "ranks", facts.ranks, error);
    const struct nib_table *const tables[] = {facts.formats, facts.inputs, facts.seeds, facts.libraries,
                                              facts.environment};
    for (size_t i = 0; i < sizeof tables / sizeof *tables && status == NIB_OK; i++) {
        char group[64];
        if (nib_table_rows(tables[i]) == 0) continue;
        snprintf(group, sizeof group, "provenance/%s", nib_table_name(tables[i]));
        status = nib_result_table(result, group, tables[i], error);
    }
    return status;
}

static enum nib_status write_all(int descriptor, const char *bytes, size_t size, const char *path,
                                 struct nib_error *error) {
    while (size > 0) {
        ssize_t written = write(descriptor, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return nib_fail_at(error, NIB_EIO, path, 0, "cannot write: %s", written < 0 ? strerror(errno) : "no progress");
        bytes += written;
        size -= (size_t)written;
    }
    return NIB_OK;
}

/* Removes what processes that were killed while they wrote `path` have left beside it. */
static void remove_leftovers(const char *path, const char *folder) {
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const size_t length = strlen(name);
    DIR *stream = opendir(folder);
    for (struct dirent *entry; stream != NULL && (entry = readdir(stream)) != NULL;) {
        long process;
        int turn, end = 0;
        if (strncmp(entry->d_name, name, length) != 0 ||
            sscanf(entry->d_name + length, ".%ld.%d.part%n", &process, &turn, &end) != 2 || end == 0 ||
            entry->d_name[length + (size_t)end] != '\0' || process <= 0)
            continue;
        if (kill((pid_t)process, 0) != 0 && errno == ESRCH) unlinkat(dirfd(stream), entry->d_name, 0);
    }
    if (stream != NULL) closedir(stream);
}

/* Writes `size` bytes beside `path`, syncs and renames. */
static enum nib_status replace_file(const char *path, const void *bytes, size_t size, struct nib_error *error) {
    char *temporary = nib_alloc(strlen(path) + 40, 1, path, error), *folder = nib_path_folder(path);
    enum nib_status status = NIB_OK;
    int descriptor = -1;
    if (temporary == NULL || folder == NULL) {
        free(temporary);
        free(folder);
        return nib_fail(error, NIB_ENOMEM, "out of memory");
    }
    for (int turn = 0; turn < 100 && descriptor < 0; turn++) { /* a name of its own; the mode follows the umask */
        sprintf(temporary, "%s.%ld.%d.part", path, (long)getpid(), turn);
        descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST) break;
    }
    if (descriptor < 0) {
        status = nib_fail_at(error, NIB_EIO, path, 0, "cannot create a file in folder \"%s\": %s", folder, strerror(errno));
    } else {
        status = write_all(descriptor, bytes, size, path, error);
        if (status == NIB_OK && fsync(descriptor) != 0)
            status = nib_fail_at(error, NIB_EIO, path, 0, "cannot write: %s", strerror(errno));
        if (close(descriptor) != 0 && status == NIB_OK)
            status = nib_fail_at(error, NIB_EIO, path, 0, "cannot write: %s", strerror(errno));
        if (status == NIB_OK && rename(temporary, path) != 0)
            status = nib_fail_at(error, NIB_EIO, path, 0, "cannot rename the finished file: %s", strerror(errno));
        if (status != NIB_OK) unlink(temporary);
    }
    if (status == NIB_OK && (descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
        fsync(descriptor); /* the new name too survives a power cut; not every file system offers it */
        close(descriptor);
    }
    if (status == NIB_OK) remove_leftovers(path, folder);
    free(temporary);
    free(folder);
    return status;
}

enum nib_status nib_result_commit(struct nib_result *result, const struct nib_provenance *provenance,
                                  struct nib_error *error) {
    enum nib_status status = write_provenance(result, provenance, error);
    if (status == NIB_OK) {
        struct nib_hdf5_quiet quiet = nib_hdf5_quiet_enter();
        void **image = NULL; /* the core driver hands out its buffer, which saves a copy of the whole file */
        ssize_t size = -1;   /* without the room that the driver keeps for growth */
        if (H5Fflush(result->file, H5F_SCOPE_GLOBAL) < 0 || (size = H5Fget_file_image(result->file, NULL, 0)) < 0 ||
            H5Fget_vfd_handle(result->file, H5P_DEFAULT, (void **)&image) < 0 || image == NULL)
            status = nib_hdf5_fail(error, result->path, "cannot finish the file");
        else
            status = replace_file(result->path, *image, (size_t)size, error);
        nib_hdf5_quiet_leave(quiet);
    }
    nib_result_abandon(result);
    return status;
}
