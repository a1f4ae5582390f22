#include "quantize/isa.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

#if defined(__x86_64__)
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif
static bool always(void) {
    return true;
}

/* Best first. */
static const struct {
    const struct nib_isa *isa;
    bool (*usable)(void);
} instances[] = {
#if defined(__x86_64__)
    {&nib_isa_avx512, has_avx512},
    {&nib_isa_avx2, has_avx2},
#endif
    {&nib_isa_generic, always},
};

enum nib_status nib_isa_choose(const char *name, const struct nib_isa **out, bool *reference, struct nib_error *error) {
    size_t count = sizeof instances / sizeof *instances;
    const char *what = name == NULL ? "NIBBLE_ISA" : "instruction set";
    if (name == NULL) name = getenv("NIBBLE_ISA");
    *reference = name != NULL && strcmp(name, "ref") == 0;
    if (*reference) {
        *out = &nib_isa_generic;
        return NIB_OK;
    }
    bool any = name == NULL || name[0] == '\0', known = false;
    for (size_t i = 0; i < count; i++) {
        bool named = any || strcmp(instances[i].isa->name, name) == 0;
        known |= named;
        if (!named || !instances[i].usable()) continue;
        *out = instances[i].isa;
        return NIB_OK;
    }
    if (known) return nib_fail(error, NIB_EUNAVAILABLE, "%s %s: this processor does not have it", what, name);
    return nib_fail(error, NIB_EINVAL, "%s \"%s\": expected generic, avx2, avx512 or ref", what, name);
}
