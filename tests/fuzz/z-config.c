/* libFuzzer target: config.json of a model, and the same bytes as tokens. */
#include "fuzz/target.h"

#include "io/model_config.h"
#include "io/tokens.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void check_refusal(enum nib_status status, const struct nib_error *error) {
    require(error->status == status && error->text[0] != '\0', "an error has its status and a text");
    require(strchr(error->text, '\n') == NULL, "of one line");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct nib_error error = {.text = ""};
    struct nib_stack_config c;
    struct nib_tokens tokens;
    char path[64];
    int descriptor = memfd_create("nibble", MFD_CLOEXEC);
    if (descriptor < 0 || write(descriptor, bytes, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    enum nib_status status = nib_model_config_read(path, &c, &error);
    if (status != NIB_OK)
        check_refusal(status, &error);
    else
        require(c.vocabulary > 0 && c.hidden > 0 && c.intermediate > 0 && c.layers > 0 && c.kv_heads > 0 &&
                    c.positions > 0 && c.heads % c.kv_heads == 0 && c.head_size > 0 && c.head_size % 2 == 0 &&
                    c.norm_epsilon > 0 && c.rope_theta > 0,
                "a configuration makes sense");
    status = nib_tokens_read(path, 200, &tokens, &error);
    if (status != NIB_OK) {
        check_refusal(status, &error);
    } else {
        for (size_t i = 0; i < tokens.rows * tokens.cols; i++)
            require(tokens.ids[i] < 200, "tokens are in the vocabulary");
        nib_tokens_clear(&tokens);
    }
    close(descriptor);
    return 0;
}
