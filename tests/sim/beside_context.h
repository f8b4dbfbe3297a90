/* A simulated H100 whose context takes 648,019,968 bytes and which has exactly 64 MiB (32 granules
 * of 2 MiB) beside it. */
#ifndef MEMTRACE_TEST_BESIDE_CONTEXT_H
#define MEMTRACE_TEST_BESIDE_CONTEXT_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)
#define GRANULE (2 * MIB)
#define CONTEXT 648019968u
#define BESIDE (64 * MIB)
#define TOTAL "715128832" /* CONTEXT + BESIDE */

static inline size_t free_bytes(void)
{
	size_t available, total;
	assert_int_equal(cudaMemGetInfo(&available, &total), cudaSuccess);
	assert_int_equal(total, CONTEXT + BESIDE);
	return available;
}

static inline void *take(size_t bytes)
{
	void *p = NULL;
	assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
	assert_non_null(p);
	return p;
}

static inline void give(void *p)
{
	assert_int_equal(cudaFree(p), cudaSuccess);
}

#endif
