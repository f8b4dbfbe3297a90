/* Stream-ordered pools: used and reserved bytes of each. The sum of a device's reserved bytes is
 * its POOL_RESERVED level. */
#ifndef PRELOAD_POOLS_H
#define PRELOAD_POOLS_H

#include <stdint.h>

/* The kind of memory in a pool. */
enum pool_kind { POOL_OF_DEVICE, POOL_OF_HOST, POOL_MANAGED };

/* ALLOCATION_TYPE as CUDA numbers it: 2 is CU_MEM_ALLOCATION_TYPE_MANAGED, from CUDA 13 on. */
static inline enum pool_kind pools_kind(int allocation_type, int on_device)
{
	return allocation_type == 2 ? POOL_MANAGED : on_device ? POOL_OF_DEVICE : POOL_OF_HOST;
}

void pools_created(void *pool, enum pool_kind kind, int device);

/* CUDA named one of its own pools, for memory of KIND; the pool may be known already. */
void pools_named(void *pool, enum pool_kind kind, int device);

/* The kind of POOL; POOL_OF_DEVICE if the pool is not known, as CUDA's own pools of devices. */
enum pool_kind pools_kind_of(void *pool);

/* The pool ends with its last allocation. */
void pools_destroyed(void *pool);

/* Reads the reserved bytes of POOL. */
void pools_sample(void *pool);

/*
 * BYTES were allocated from *POOL (NULL: the current pool of *DEVICE, which is then filled in).
 * BY_ALLOCATOR: PyTorch's allocator asked for them. Returns the bytes that the pool counts for
 * them; *DEVICE becomes the pool's device.
 */
uint64_t pools_count_alloc(void **pool, unsigned *device, uint64_t bytes, int by_allocator);

/* BYTES were freed into the pool. pools_count_failed_free(): the free failed, they are used
 * again. */
void pools_count_free(void *pool, uint64_t bytes);
void pools_count_failed_free(void *pool, uint64_t bytes);

void pools_forget(void);

#endif
