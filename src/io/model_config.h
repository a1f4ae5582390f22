/* config.json of a Hugging Face model. */
#ifndef NIB_IO_MODEL_CONFIG_H
#define NIB_IO_MODEL_CONFIG_H

#include <nibble/stack.h>

/* Reads a configuration of model_type "llama". A key that is missing, has another type, changes the computation in a
 * way that is not built, or is not known at all is an error that names it. */
NIB_CHECK enum nib_status nib_model_config_read(const char *path, struct nib_stack_config *out,
                                                struct nib_error *error);
/* Where the configuration of a model lies: config.json in its folder, or NAME.config.json beside NAME.safetensors where
 * there is one. The caller frees *out. */
NIB_CHECK enum nib_status nib_model_config_find(const char *model, char **out, struct nib_error *error);

#endif
