/* The element types of tensors. */
#ifndef MEMTRACE_TORCH_DTYPE_H
#define MEMTRACE_TORCH_DTYPE_H

#include <stdint.h>

enum dtype { F32, F16, BF16, F64, I64, I32, U8, BOOL, DTYPES };

/* Bytes of an element. */
static inline int64_t dtype_width(enum dtype t)
{
	static const unsigned char widths[DTYPES] = {
		[F32] = 4, [F16] = 2, [BF16] = 2, [F64] = 8,
		[I64] = 8, [I32] = 4, [U8] = 1,   [BOOL] = 1
	};

	return widths[t];
}

#endif
