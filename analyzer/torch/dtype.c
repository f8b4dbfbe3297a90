#include "torch/dtype.h"

int64_t dtype_width(enum dtype t)
{
	static const unsigned char widths[DTYPES] = {
		[F32] = 4, [F16] = 2, [BF16] = 2, [F64] = 8,
		[I64] = 8, [I32] = 4, [U8] = 1,   [BOOL] = 1
	};

	return widths[t];
}
