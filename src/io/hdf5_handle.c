#include "io/hdf5_handle.h"

#include "base/error.h"
#include "io/hdf5_out.h"
#include "io/text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct nib_hdf5_quiet nib_hdf5_quiet_enter(void) {
    struct nib_hdf5_quiet saved = {NULL, NULL};
    H5Eget_auto2(H5E_DEFAULT, &saved.function, &saved.data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return saved;
}

void nib_hdf5_quiet_leave(struct nib_hdf5_quiet saved) { H5Eset_auto2(H5E_DEFAULT, saved.function, saved.data); }

void nib_hdf5_quiet_exit(void) { H5dont_atexit(); }

static herr_t keep_description(unsigned depth, const H5E_error2_t *what, void *out) {
    (void)depth;
    if (what->desc != NULL && what->desc[0] != '\0') nib_printable(what->desc, out);
    return 0;
}

enum nib_status nib_hdf5_fail(struct nib_error *error, const char *file, const char *what) {
    char reason[80] = "unknown cause";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_description, reason);
    return nib_fail_at(error, NIB_EIO, file, 0, "HDF5: %s: %s", what, reason);
}

enum nib_status nib_hdf5_open(const char *path, hid_t *out, struct nib_error *error) {
    struct stat about;
    if (path[0] == '\0') return nib_fail(error, NIB_EIO, "the name of a file is empty");
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not wait for a writer */
    if (descriptor < 0) return nib_fail_at(error, NIB_EIO, path, 0, "cannot open: %s", strerror(errno));
    bool regular = fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
    close(descriptor);
    if (!regular) return nib_fail_at(error, NIB_EIO, path, 0, "is not a regular file");
    if (H5Fis_hdf5(path) <= 0) return nib_fail_at(error, NIB_ESYNTAX, path, 0, "is not an HDF5 file");
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return nib_hdf5_fail(error, path, "cannot open");
    *out = file;
    return NIB_OK;
}

hid_t nib_hdf5_text_type(void) {
    hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0 && (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

static hid_t open_or_create(hid_t parent, const char *name) {
    htri_t exists = H5Lexists(parent, name, H5P_DEFAULT);
    if (exists != 0) return exists < 0 ? -1 : H5Gopen2(parent, name, H5P_DEFAULT);
    hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
    unsigned order = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
    hid_t group = -1;
    if (properties >= 0 && H5Pset_link_creation_order(properties, order) >= 0 &&
        H5Pset_attr_creation_order(properties, order) >= 0 && H5Pset_obj_track_times(properties, false) >= 0)
        group = H5Gcreate2(parent, name, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    return group;
}

hid_t nib_hdf5_group(hid_t file, const char *path) {
    hid_t group = H5Gopen2(file, "/", H5P_DEFAULT);
    while (group >= 0 && *path != '\0') {
        size_t length = strcspn(path, "/");
        if (length > 0) {
            char *name = strndup(path, length);
            hid_t inner = name == NULL ? -1 : open_or_create(group, name);
            free(name);
            H5Gclose(group);
            group = inner;
        }
        path += length + (path[length] == '/');
    }
    return group;
}

bool nib_hdf5_attribute(hid_t object, const char *name, hid_t memory_type, const void *value) {
    if (H5Aexists(object, name) > 0 && H5Adelete(object, name) < 0) return false;
    hid_t space = H5Screate(H5S_SCALAR), attribute = -1;
    if (space >= 0) attribute = H5Acreate2(object, name, memory_type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool done = attribute >= 0 && H5Awrite(attribute, memory_type, value) >= 0;
    if (attribute >= 0) H5Aclose(attribute);
    if (space >= 0) H5Sclose(space);
    return done;
}

bool nib_hdf5_text_attribute(hid_t object, const char *name, const char *value) {
    char *owned = NULL;
    const char *text = nib_utf8(value, &owned);
    hid_t type = nib_hdf5_text_type();
    bool done = text != NULL && type >= 0 && nib_hdf5_attribute(object, name, type, &text);
    if (type >= 0) H5Tclose(type);
    free(owned);
    return done;
}

char *nib_hdf5_text_attribute_read(hid_t object, const char *name) {
    char *value = NULL, *copy = NULL;
    hid_t attribute = H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    hid_t type = attribute < 0 ? -1 : H5Aget_type(attribute);
    if (type >= 0 && H5Tis_variable_str(type) > 0 && H5Aread(attribute, type, &value) >= 0 && value != NULL) {
        copy = strdup(value);
        H5free_memory(value);
    }
    if (type >= 0) H5Tclose(type);
    if (attribute >= 0) H5Aclose(attribute);
    return copy == NULL ? strdup("") : copy;
}
