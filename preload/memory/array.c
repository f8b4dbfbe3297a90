#define _GNU_SOURCE
#include "memory/array.h"

#include <cuda.h>

static uint64_t at_least_1(uint64_t n)
{
	return n ? n : 1;
}

uint64_t array_bytes(uint64_t width, uint64_t height, uint64_t depth, unsigned element,
		     unsigned levels, unsigned flags)
{
	uint64_t bytes = 0;

	if (flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned level = 0; level < levels && level < 64; level++) {
		bytes += at_least_1(width) * at_least_1(height) * at_least_1(depth) * element / 8;
		width /= 2;
		height /= 2;
		if (!(flags & CUDA_ARRAY3D_LAYERED)) /* each level has as many layers */
			depth /= 2;
	}
	return bytes;
}

unsigned array_bits(int format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 8;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 16;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 32;
	default: /* normalised, packed and block-compressed formats of graphics: approximate */
		return 8;
	}
}
