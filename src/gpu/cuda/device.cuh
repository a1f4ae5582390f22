#pragma once

#include "../plugin.h"

int device_open(int index, char *error, size_t size);
void device_close(void);
int device_describe(struct nib_gpu_device *out, char *error, size_t size);
int cublaslt_version(void); // 0 where the library is missing
