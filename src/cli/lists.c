#include "cli/lists.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/input.h"
#include "format/quantizer.h"
#include "stack/recipe.h"

struct nib_texts nib_texts_or(const struct nib_texts *given, const char *const *usual, size_t count) {
    return given->count > 0 ? *given : (struct nib_texts){usual, count};
}

enum nib_status nib_labels_part(const char *kind, const char *const *texts, const char **names, size_t count,
                                struct nib_error *error) {
    bool *clash = nib_alloc(count, sizeof *clash, "labels", error);
    if (clash == NULL) return NIB_ENOMEM;
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < count; i++)
        for (size_t k = 0; status == NIB_OK && k < i; k++) {
            if (strcmp(texts[i], texts[k]) == 0)
                status = nib_fail(error, NIB_EINVAL, "%s %s is given twice", kind, texts[i]);
            if (strcmp(names[i], names[k]) == 0) clash[i] = clash[k] = true;
        }
    for (size_t i = 0; i < count; i++)
        if (clash[i]) names[i] = texts[i];
    free(clash);
    return status;
}

/* The end of a path says more than its beginning. */
static void copy_end(char *out, size_t size, const char *label, const char *behind) {
    size_t length = strlen(label), room = size - 1 - strlen(behind);
    snprintf(out, size, "%s%s", length > room ? label + length - room : label, behind);
}

void nib_quantizer_call(const struct nib_quantizer *quantizer, const char *label) {
    struct nib_quantizer *mine = (struct nib_quantizer *)(uintptr_t)quantizer;
    char behind[sizeof mine->name / 2];
    const char *plus = strchr(mine->name, '+');
    snprintf(behind, sizeof behind, "%s", plus == NULL ? "" : plus);
    copy_end(mine->name, sizeof mine->name, label, behind);
}

static enum nib_status part_quantizers(const char *const *texts, struct nib_quantizers *list, struct nib_error *error) {
    const char **labels = nib_alloc(list->count, sizeof *labels, "labels", error);
    if (labels == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < list->count; i++) labels[i] = list->item[i]->name;
    enum nib_status status = nib_labels_part("quantizer", texts, labels, list->count, error);
    for (size_t i = 0; status == NIB_OK && i < list->count; i++)
        if (labels[i] == texts[i]) nib_quantizer_call(list->item[i], texts[i]);
    free(labels);
    return status;
}

enum nib_status nib_recipes_open(const char *const *texts, size_t count, const struct nib_recipe **out,
                                 struct nib_error *error) {
    size_t opened = 0;
    const char **labels = nib_alloc(count, sizeof *labels, "labels", error);
    enum nib_status status = labels == NULL ? NIB_ENOMEM : NIB_OK;
    for (; status == NIB_OK && opened < count; opened += status == NIB_OK) {
        status = nib_recipe_open(texts[opened], &out[opened], error);
        if (status == NIB_OK) labels[opened] = nib_recipe_name(out[opened]);
    }
    if (status == NIB_OK) status = nib_labels_part("recipe", texts, labels, count, error);
    for (size_t i = 0; i < opened; i++) {
        struct nib_recipe *mine = (struct nib_recipe *)(uintptr_t)out[i];
        if (status != NIB_OK) {
            nib_recipe_close(mine);
            out[i] = NULL;
        } else if (labels[i] == texts[i]) {
            copy_end(mine->name, sizeof mine->name, texts[i], "");
        }
    }
    free(labels);
    return status;
}

enum nib_status nib_quantizers_open(const char *const *names, size_t count, const struct nib_texts *settings,
                                    struct nib_quantizers *out, struct nib_error *error) {
    struct nib_quantizers list = {nib_alloc(count, sizeof *list.item, "quantizers", error), 0};
    enum nib_status status = list.item == NULL ? NIB_ENOMEM : NIB_OK;
    for (; status == NIB_OK && list.count < count; list.count += status == NIB_OK)
        status = nib_input_quantizer(names[list.count], settings, &list.item[list.count], error);
    if (status == NIB_OK) status = part_quantizers(names, &list, error);
    if (status != NIB_OK) nib_quantizers_close(&list);
    *out = list;
    return status;
}

void nib_quantizers_close(struct nib_quantizers *list) {
    for (size_t i = 0; i < list->count; i++) nib_quantizer_close(list->item[i]);
    free(list->item);
    *list = (struct nib_quantizers){NULL, 0};
}

enum nib_status nib_rotations_open(const char *const *names, size_t count, struct nib_rotations *out,
                                   struct nib_error *error) {
    struct nib_rotations list = {nib_alloc(count, sizeof *list.item, "rotations", error), 0};
    enum nib_status status = list.item == NULL ? NIB_ENOMEM : NIB_OK;
    for (; status == NIB_OK && list.count < count; list.count += status == NIB_OK)
        status = nib_rotation_open(names[list.count], &list.item[list.count], error);
    for (size_t i = 0; status == NIB_OK && i < count; i++)
        for (size_t k = 0; status == NIB_OK && k < i; k++)
            if (strcmp(nib_rotation_name(list.item[i]), nib_rotation_name(list.item[k])) == 0)
                status = nib_fail(error, NIB_EINVAL, "rotations %s and %s are both called %s; expected different names",
                                  names[k], names[i], nib_rotation_name(list.item[i]));
    if (status != NIB_OK) nib_rotations_close(&list);
    *out = list;
    return status;
}

void nib_rotations_close(struct nib_rotations *list) {
    for (size_t i = 0; i < list->count; i++) nib_rotation_close(list->item[i]);
    free(list->item);
    *list = (struct nib_rotations){NULL, 0};
}
