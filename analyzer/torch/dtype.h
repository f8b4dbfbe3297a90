/* The element types of tensors. */
#ifndef MEMTRACE_TORCH_DTYPE_H
#define MEMTRACE_TORCH_DTYPE_H

#include <stdint.h>

enum dtype { F32, F16, BF16, F64, I64, I32, U8, BOOL, DTYPES };
/* Bytes of an element. */
int64_t dtype_width(enum dtype t);

#endif
