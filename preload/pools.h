/* Stream-ordered pools: how much each holds, used and reserved. Their sum on a device is the
 * POOL_RESERVED level. */
#ifndef PRELOAD_POOLS_H
#define PRELOAD_POOLS_H

#include <stdint.h>

void pools_created(void *pool, int on_device, int device);

/* Was POOL created for memory of the host? */
int pools_on_host(void *pool);

/* It goes with its last allocation. */
void pools_destroyed(void *pool);

/* Reads what POOL holds now. */
void pools_sample(void *pool);

/*
 * BYTES were allocated from *POOL (NULL: *DEVICE's current one, which is then filled in) by
 * PyTorch's allocator or someone else. Returns what the pool counts for them; *DEVICE becomes the
 * pool's.
 */
uint64_t pools_took(void **pool, unsigned *device, uint64_t bytes, int by_allocator);

/* They went back; pools_kept(): they did not, the free failed. */
void pools_gave(void *pool, uint64_t bytes);
void pools_kept(void *pool, uint64_t bytes);

void pools_forget(void);

#endif
