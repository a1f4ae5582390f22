/* Opening a quantizer by whatever names one: a quantizer, or a grid or block format to explore. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "format/registry.h"
#include "format/yaml.h"
#include <nibble/quantizer.h>

/* The values that share one scale when a grid comes without a block format, as in the UFP4 paper. */
enum { GRID_BLOCK = 16 };

static enum nib_status of_element(const struct nib_registry_text *file, const struct nib_quantizer **out,
                                  struct nib_error *error) {
    const struct nib_element *element;
    const struct nib_scale *fp32;
    enum nib_status status = nib_element_parse(file->text, file->length, file->label, &element, error);
    if (status != NIB_OK) return status;
    status = nib_scale_open("fp32", &fp32, error);
    if (status == NIB_OK) {
        status = nib_quantizer_of_grid(element, fp32, GRID_BLOCK, out, error);
        nib_scale_close(fp32);
    }
    nib_element_close(element);
    return status;
}

/* Every axis at its default. */
static enum nib_status of_block(const struct nib_registry_text *file, const struct nib_quantizer **out,
                                struct nib_error *error) {
    char text[1024], block[260];
    const struct nib_block *checked; /* so that errors name the block's file */
    enum nib_status status = nib_block_parse(file->text, file->length, file->label, &checked, error);
    if (status != NIB_OK) return status;
    nib_block_close(checked);
    const char *slash = strrchr(file->label, '/');
    if (file->built_in)
        snprintf(block, sizeof block, "%s", file->name);
    else /* as seen from its own folder */
        snprintf(block, sizeof block, "./%s", slash != NULL ? slash + 1 : file->label);
    snprintf(text, sizeof text,
             "kind: quantizer\ntitle: the block format %s\nsource: every axis at its default\ndevice: any\n"
             "verified: false\nblock: \"%s\"\n",
             file->name, block);
    return nib_quantizer_parse(text, strlen(text), file->label, out, error);
}

/* What a file says it is: "quantizer" where it does not say. */
static enum nib_status kind_of(const struct nib_registry_text *file, char kind[24], struct nib_error *error) {
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(file->text, file->length, file->label, &document, error);
    if (status != NIB_OK) return status;
    const struct nib_yaml_node *node = nib_yaml_get(nib_yaml_root(document), "kind");
    const char *word = node != NULL ? nib_yaml_scalar(node) : NULL;
    snprintf(kind, 24, "%.23s", word != NULL ? word : "quantizer");
    nib_yaml_free(document);
    return NIB_OK;
}

enum nib_status nib_quantizer_open(const char *name_or_path, const struct nib_quantizer **out,
                                   struct nib_error *error) {
    static const char *const prefixes[] = {"quantizers/", "elements/", "blocks/"};
    static const char *const kinds[] = {"quantizers", "elements", "blocks"};
    struct nib_registry_text file;
    if (out == NULL) return nib_fail(error, NIB_EINVAL, "the place of the quantizer is NULL");
    const char *kind = "quantizers", *name = name_or_path;
    size_t length = name != NULL ? strlen(name) : 0;
    bool yaml = length > 5 && strcmp(name + length - 5, ".yaml") == 0;
    for (int i = 0; i < 3 && !yaml && name_or_path != NULL; i++)
        if (strncmp(name_or_path, prefixes[i], strlen(prefixes[i])) == 0) {
            kind = kinds[i];
            name = name_or_path + strlen(prefixes[i]);
        }
    char said[24];
    enum nib_status status = nib_registry_read(kind, name, &file, error);
    if (status != NIB_OK) return status;
    status = kind_of(&file, said, error);
    if (status != NIB_OK)
        ;
    else if (strcmp(said, "element") == 0)
        status = of_element(&file, out, error);
    else if (strcmp(said, "block") == 0)
        status = of_block(&file, out, error);
    else if (strcmp(said, "quantizer") != 0)
        status = nib_fail_at(error, NIB_ESYNTAX, file.label, 0,
                             "is of kind \"%s\"; expected a quantizer, or a block or element to make one of", said);
    else
        status = nib_quantizer_parse(file.text, file.length, file.label, out, error);
    free(file.text);
    return status;
}
