/* Stream-ordered pools: how much each holds, used and reserved. Their sum on a device is the
 * POOL_RESERVED level. */
#ifndef PRELOAD_POOLS_H
#define PRELOAD_POOLS_H

#include <stdint.h>

/* What a pool's memory is. */
enum pool_kind { POOL_OF_DEVICE, POOL_OF_HOST, POOL_MANAGED };

/* ALLOCATION_TYPE as CUDA numbers it: 2 is CU_MEM_ALLOCATION_TYPE_MANAGED, from CUDA 13 on. */
static inline enum pool_kind pools_kind(int allocation_type, int on_device)
{
	return allocation_type == 2 ? POOL_MANAGED : on_device ? POOL_OF_DEVICE : POOL_OF_HOST;
}

void pools_created(void *pool, enum pool_kind kind, int device);

/* CUDA named a pool that it made itself, for memory of KIND; it may be known already. */
void pools_named(void *pool, enum pool_kind kind, int device);

/* Of POOL; POOL_OF_DEVICE where it is not known, which CUDA's own pools of each device are. */
enum pool_kind pools_kind_of(void *pool);

/* It goes with its last allocation. */
void pools_destroyed(void *pool);

/* Reads what POOL holds now. */
void pools_sample(void *pool);

/*
 * BYTES were allocated from *POOL (NULL: *DEVICE's current one, which is then filled in) by
 * PyTorch's allocator or someone else. Returns what the pool counts for them; *DEVICE becomes the
 * pool's.
 */
uint64_t pools_count_alloc(void **pool, unsigned *device, uint64_t bytes, int by_allocator);

/* They went back; pools_count_failed_free(): they did not. */
void pools_count_free(void *pool, uint64_t bytes);
void pools_count_failed_free(void *pool, uint64_t bytes);

void pools_forget(void);

#endif
