#include "cli/lists.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cli/input.h"

enum nib_status nib_quantizers_open(const char *const *names, size_t count, const struct nib_texts *settings,
                                    struct nib_quantizers *out, struct nib_error *error) {
    struct nib_quantizers list = {nib_alloc(count, sizeof *list.item, "quantizers", error), 0};
    enum nib_status status = list.item == NULL ? NIB_ENOMEM : NIB_OK;
    for (; status == NIB_OK && list.count < count; list.count += status == NIB_OK)
        status = nib_input_quantizer(names[list.count], settings, &list.item[list.count], error);
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
    if (status != NIB_OK) nib_rotations_close(&list);
    *out = list;
    return status;
}

void nib_rotations_close(struct nib_rotations *list) {
    for (size_t i = 0; i < list->count; i++) nib_rotation_close(list->item[i]);
    free(list->item);
    *list = (struct nib_rotations){NULL, 0};
}
