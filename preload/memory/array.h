/* The size of CUDA arrays. No call returns it for ordinary arrays, so it is computed from the
 * shape; the alignment is not known. */
#ifndef PRELOAD_ARRAY_H
#define PRELOAD_ARRAY_H

#include <stdint.h>

/* Bytes of an array of ELEMENT bits each, in LEVELS mipmap levels; 0 if FLAGS (the same numbers
 * in driver and runtime) say that the array gets its memory later, by mapping. A height or depth
 * of 0 counts as 1. */
uint64_t array_bytes(uint64_t width, uint64_t height, uint64_t depth, unsigned element,
		     unsigned levels, unsigned flags);

/* Bits of one channel in a CUarray_format. */
unsigned array_bits(int format);

#endif
