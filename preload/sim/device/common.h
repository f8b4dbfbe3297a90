/* The common parts of the simulated device: error numbers, sizes, and the marks of exported
 * functions. The error numbers are those that the runtime and the driver have in common, so that
 * the accounting needs no CUDA headers. */
#ifndef CUDASIM_COMMON_H
#define CUDASIM_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* Per-thread-default-stream builds ask for these names; a thread's default stream shares the legacy
 * one's timeline, so the twin is the same. */
#define TWIN(function, suffix)                       \
	extern __typeof__(function) function##suffix \
		__attribute__((alias(#function), visibility("default")))
#define PTSZ(function) TWIN(function, _ptsz)
#define PTDS(function) TWIN(function, _ptds)

enum {
	SIM_OK = 0,
	SIM_INVALID_VALUE = 1,
	SIM_OUT_OF_MEMORY = 2,
	SIM_NOT_INITIALIZED = 3,
	SIM_NO_DEVICE = 100,
	SIM_INVALID_DEVICE = 101,
	SIM_INVALID_HANDLE = 400,
	SIM_NOT_FOUND = 500,
	SIM_NOT_READY = 600,
	SIM_NOT_SUPPORTED = 801,
};

enum { MAX_DEVICES = 8 };
#define GRANULE MIB(2) /* the driver's unit of physical memory */

static inline uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* `array`, which holds `count` elements of `size` bytes, with room for one more: moved if need
 * be. NULL: no memory, and the array is unchanged. */
static inline void *room_for_one(void *array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return array;
	size_t more = *capacity ? *capacity * 2 : 64;
	void *grown = realloc(array, more * size);
	if (grown)
		*capacity = more;
	return grown;
}

/* On overflow, a number larger than any memory. */
static inline uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t both;
	return __builtin_mul_overflow(a, b, &both) ? UINT64_MAX : both;
}

#endif
