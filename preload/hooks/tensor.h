/* A tensor of PyTorch, a c10::TensorImpl, as far as it is read: by reads that cannot fault. */
#ifndef PRELOAD_TENSOR_H
#define PRELOAD_TENSOR_H

#include <stdint.h>

/* Where its storage is; 0: not on a device with CUDA, it has none, or that cannot be read. */
uint64_t tensor_address(const void *impl, unsigned *device);

/* Is its Python object of the type torch.nn.Parameter? */
int tensor_is_parameter(const void *impl);

/* How often it was changed in place; 0: never, or that cannot be read. */
uint32_t tensor_version(const void *impl);

#endif
