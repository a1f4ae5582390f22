#include <nibble/compare.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "compare/arrangement.h"

static const struct nib_part *find(const struct nib_part *parts, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(parts[i].name, name) == 0) return &parts[i];
    return NULL;
}

static void alone(const struct nib_part *part, bool in_a, struct nib_difference *out) {
    *out = (struct nib_difference){.stage = part->stage, .only_a = in_a, .only_b = !in_a, .rank = part->rank};
    snprintf(out->name, sizeof out->name, "%s", part->name);
    memcpy(out->shape, part->shape, sizeof out->shape);
}

/* Stable, so that parts of one stage stay in the order of A. */
static void sort_by_stage(struct nib_difference *all, size_t count) {
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && all[k].stage < all[k - 1].stage; k--) {
            struct nib_difference saved = all[k];
            all[k] = all[k - 1];
            all[k - 1] = saved;
        }
}

enum nib_status nib_compare(const struct nib_part *a, size_t count_a, const struct nib_part *b, size_t count_b,
                            struct nib_comparison *out, struct nib_error *error) {
    struct nib_comparison made = {0};
    size_t pairs = 0;
    made.differences = nib_alloc(count_a + count_b, sizeof *made.differences, "a comparison", error);
    if (made.differences == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count_a; i++) {
        struct nib_difference *here = &made.differences[made.count++];
        const struct nib_part *other = find(b, count_b, a[i].name);
        if (other == NULL) {
            alone(&a[i], true, here);
            continue;
        }
        nib_part_compare(&a[i], other, here);
        if (here->items > 0) here->arrangement = nib_arrangement(&a[i], other);
        pairs++;
    }
    for (size_t i = 0; i < count_b; i++)
        if (find(a, count_a, b[i].name) == NULL) alone(&b[i], false, &made.differences[made.count++]);
    if (pairs == 0) {
        free(made.differences);
        return nib_fail(error, NIB_EINVAL,
                        "nothing to compare: no name occurs on both sides (A has \"%s\"%s, B has \"%s\"%s); FILE:WEIGHT chooses "
                        "one of several weights, and FILE.npy:packed names an array",
                        count_a > 0 ? a[0].name : "", count_a > 1 ? ", ..." : "", count_b > 0 ? b[0].name : "",
                        count_b > 1 ? ", ..." : "");
    }
    sort_by_stage(made.differences, made.count);
    for (size_t i = made.count; i-- > 0;) {
        const struct nib_difference *here = &made.differences[i];
        made.compared += here->compared;
        made.differing += here->items;
        if (here->items > 0) made.first = here;
        bool telling = here->stage == NIB_STAGE_CODES || here->stage == NIB_STAGE_PACKED || here->stage == NIB_STAGE_VALUES;
        made.codes_compared = made.codes_compared || (telling && here->compared > 0);
    }
    *out = made;
    return NIB_OK;
}

void nib_comparison_free(struct nib_comparison *comparison) {
    if (comparison == NULL) return;
    free(comparison->differences);
    *comparison = (struct nib_comparison){0};
}
