/* Stream-ordered pools. Handles are written as CUDA does, through `void *`. */
#ifndef CUDASIM_POOL_H
#define CUDASIM_POOL_H

#include "device/memory.h"

struct pool;

/* For memory.c, with the memory lock held. */
int pool_charge(struct pool *pool, uint64_t bytes);
void pool_refund(struct pool *pool, uint64_t bytes);
struct heap *pool_heap(struct pool *pool);

/* The device was synchronised: unused bytes above the release threshold go back. */
void pool_synchronized(int device);

/* All return an error number that the runtime and the driver have in common. */
int pool_create(int device, uint64_t most, void *handle); /* most: maxSize, 0 for the card */
int pool_destroy(struct pool *pool);
int pool_get_default(int device, void *handle);
int pool_get_current(int device, void *handle);
int pool_choose(int device, struct pool *pool);
int pool_attribute(struct pool *pool, int attribute, void *value);
int pool_set_attribute(struct pool *pool, int attribute, const void *value);
int pool_trim_to(struct pool *pool, uint64_t keep);
/* Allocates from POOL, or with NULL from the current pool of DEVICE. */
int pool_alloc(struct pool *pool, int device, uint64_t size, void *address);

#endif
