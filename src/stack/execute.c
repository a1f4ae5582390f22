#include "stack/pass.h"

#include "base/error.h"
#include "base/fpenv.h"
#include <stdlib.h>
#include <string.h>

static enum nib_status check(const struct nib_stack_config *config, const uint32_t *tokens, size_t sequences,
                             size_t length, struct nib_error *error) {
    if (sequences == 0 || length == 0)
        return nib_fail(error, NIB_EINVAL, "no tokens: %zu sequences of %zu", sequences, length);
    if (length > config->positions)
        return nib_fail(error, NIB_EINVAL, "sequences of %zu tokens; the model takes %u (max_position_embeddings)",
                        length, config->positions);
    if (sequences > ((size_t)1 << 32) / length)
        return nib_fail(error, NIB_EINVAL, "%zu sequences of %zu tokens are more than 2^32", sequences, length);
    for (size_t i = 0; i < sequences * (length + 1); i++)
        if (tokens[i] >= config->vocabulary)
            return nib_fail(error, NIB_EINVAL, "token %zu of sequence %zu is %u; the vocabulary has %u",
                            i % (length + 1), i / (length + 1), tokens[i], config->vocabulary);
    return NIB_OK;
}

enum nib_status nib_stack_execute(const struct nib_stack *stack, const struct nib_stack_run *run,
                                  const uint32_t *tokens, size_t sequences, size_t length, struct nib_stack_result *out,
                                  struct nib_error *error) {
    struct nib_stack_pass pass;
    enum nib_status status = check(&stack->config, tokens, sequences, length, error);
    if (status != NIB_OK) return status;
    struct nib_fpenv saved = nib_fpenv_enter();
    status = nib_stack_pass_init(&pass, stack, run, tokens, sequences, length, error);
    if (status == NIB_OK) status = nib_stack_pass_forward(&pass, error);
    if (status == NIB_OK && run->backward) status = nib_stack_pass_backward(&pass, error);
    nib_fpenv_leave(saved);
    if (status == NIB_OK) {
        *out = pass.result;
        memset(&pass.result, 0, sizeof pass.result);
    }
    nib_stack_pass_clear(&pass);
    return status;
}

void nib_stack_result_clear(struct nib_stack_result *result) {
    for (size_t i = 0; result->gradient != NULL && i < result->weights; i++) free(result->gradient[i]);
    free(result->gradient);
    free(result->hidden);
    free(result->hidden_gradient);
    free(result->logits);
    free(result->token_loss);
    memset(result, 0, sizeof *result);
}
