#define _GNU_SOURCE
#include "memory/pools.h"

#include <memtrace/trace.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "memory/counters.h"
#include "memory/cuda.h"
#include "base/lock.h"
#include "record/losses.h"

#define POOLS 128
#define UNIT 512u /* the alignment of CUDA's allocations */

struct pool {
	void *handle;  /* NULL: a free slot */
	uint64_t used; /* by our count, to measure the next allocation */
	uint64_t reserved;
	uint64_t ticket;      /* drawn before the pool was asked for `reserved` */
	uint8_t device;       /* of POOL_OF_DEVICE */
	uint8_t kind;         /* enum pool_kind */
	uint8_t by_allocator; /* PyTorch's allocator takes from it */
	uint8_t destroyed;
};

static struct {
	struct lock lock;
	struct pool pool[POOLS];
	_Atomic uint64_t tickets;
	uint64_t level[MT_MAX_DEVICES];
} pools;

void pools_forget(void)
{
	memset(&pools, 0, sizeof(pools));
}

/* The lock is held. NULL: not known. */
static struct pool *find_pool(void *handle)
{
	for (unsigned i = 0; i < POOLS && handle; i++)
		if (pools.pool[i].handle == handle)
			return &pools.pool[i];
	return NULL;
}

/* The lock is held. Adds a pool that is not known. NULL if there is no room, or no such device:
 * the bytes of the pool are in no level then, and counted as lost. */
static struct pool *add_pool(void *handle, enum pool_kind kind, unsigned device)
{
	if (!handle)
		return NULL;
	for (unsigned i = 0; i < POOLS && (device < MT_MAX_DEVICES || kind != POOL_OF_DEVICE); i++)
		if (!pools.pool[i].handle) {
			pools.pool[i] = (struct pool){ .handle = handle,
						       .device = (uint8_t)device,
						       .kind = (uint8_t)kind };
			return &pools.pool[i];
		}
	losses_count(MT_LOST_LIMIT);
	return NULL;
}

/* The lock is busy: a change of a pool's level is not recorded. */
static int take_lock(void)
{
	int held = lock_acquire(&pools.lock, LOCK_WAIT);

	if (!held)
		losses_count(MT_LOST_BUSY);
	return held;
}

/*
 * The lock is held, so that levels are recorded in their order. POOL held RESERVED bytes when it
 * was asked after TICKET was drawn: the answer to an earlier question comes too late. A question
 * follows each change, so the last answer is right.
 */
static void set_reserved(struct pool *pool, uint64_t reserved, uint64_t ticket)
{
	int64_t change = (int64_t)(reserved - pool->reserved);

	if (ticket < pool->ticket)
		return;
	pool->ticket = ticket;
	pool->reserved = reserved;
	pools.level[pool->device] += (uint64_t)change;
	if (change)
		counters_pool(pool->device, change, pools.level[pool->device], pool->by_allocator);
	if (pool->destroyed && !pool->used)
		pool->handle = NULL;
}

static uint64_t draw_ticket(void)
{
	return atomic_fetch_add(&pools.tickets, 1) + 1;
}

/* The lock is held. Another pool with that handle has ended: the frees of its remaining memory
 * were not seen. */
static void forget(struct pool *pool)
{
	if (pool->kind == POOL_OF_DEVICE) {
		pool->used = 0;
		set_reserved(pool, 0, MT_UNKNOWN);
	}
	*pool = (struct pool){ 0 };
}

void pools_created(void *handle, enum pool_kind kind, int device)
{
	struct pool *known;

	if (!take_lock())
		return;
	known = find_pool(handle);
	if (known)
		forget(known);
	(void)add_pool(handle, kind, (unsigned)device);
	lock_release(&pools.lock);
}

void pools_named(void *handle, enum pool_kind kind, int device)
{
	/* CUDA's own pools of devices are found at their first allocation. */
	if (kind == POOL_OF_DEVICE || !take_lock())
		return;
	if (!find_pool(handle))
		(void)add_pool(handle, kind, (unsigned)device);
	lock_release(&pools.lock);
}

/* The device of *HANDLE: an unknown pool may belong to another device than the current one. */
static unsigned device_of(void *handle, unsigned current)
{
	const struct pool *pool = NULL;
	unsigned device = current;

	if (handle && lock_acquire(&pools.lock, LOCK_WAIT)) {
		pool = find_pool(handle);
		if (pool)
			device = pool->device;
		lock_release(&pools.lock);
	}
	return pool || !handle ? device : cuda_device_of_pool(handle, current);
}

enum pool_kind pools_kind_of(void *handle)
{
	enum pool_kind kind = POOL_OF_DEVICE;
	const struct pool *pool;

	if (!handle || !lock_acquire(&pools.lock, LOCK_WAIT))
		return kind;
	pool = find_pool(handle);
	if (pool)
		kind = (enum pool_kind)pool->kind;
	lock_release(&pools.lock);
	return kind;
}

/* The lock is held. POOL is destroyed: it holds only the memory that is still used. */
static void keep_used(struct pool *pool)
{
	pool->destroyed = 1;
	set_reserved(pool, pool->used, MT_UNKNOWN);
}

void pools_destroyed(void *handle)
{
	struct pool *pool;

	if (!take_lock())
		return;
	pool = find_pool(handle);
	if (pool && pool->kind != POOL_OF_DEVICE)
		pool->handle = NULL;
	else if (pool)
		keep_used(pool);
	lock_release(&pools.lock);
}

void pools_sample(void *handle)
{
	uint64_t used, reserved, ticket = draw_ticket();
	struct pool *pool;

	if (cuda_pool(0, &handle, &used, &reserved) != 0 || !take_lock())
		return;
	pool = find_pool(handle);
	if (pool && pool->kind == POOL_OF_DEVICE)
		set_reserved(pool, reserved, ticket);
	lock_release(&pools.lock);
}

/*
 * The pool rounds sizes in its own way: if its used counter grew by the request and less than a
 * unit more, that growth is the size. If not, other threads used the pool too.
 */
static uint64_t size_in_pool(const struct pool *pool, uint64_t bytes, uint64_t used)
{
	uint64_t grown = used - pool->used;

	return grown >= bytes && grown - bytes < UNIT ? grown : (bytes + UNIT - 1) / UNIT * UNIT;
}

uint64_t pools_count_alloc(void **handle, unsigned *device, uint64_t bytes, int by_allocator)
{
	uint64_t used, reserved, ticket = draw_ticket();
	struct pool *pool;

	*device = device_of(*handle, *device);
	if ((*device == MT_NO_DEVICE && !*handle) ||
	    cuda_pool((int)*device, handle, &used, &reserved) != 0 || !take_lock())
		return bytes;
	pool = find_pool(*handle);
	if (!pool)
		pool = add_pool(*handle, POOL_OF_DEVICE, *device);
	if (pool) {
		*device = pool->device;
		bytes = size_in_pool(pool, bytes, used);
		pool->used += bytes;
		pool->by_allocator = pool->by_allocator || by_allocator;
		set_reserved(pool, reserved, ticket);
	}
	lock_release(&pools.lock);
	return bytes;
}

/* BYTES (signed) more of the pool are used. */
static void change_used(void *handle, int64_t bytes)
{
	struct pool *pool;

	if (!take_lock())
		return;
	pool = find_pool(handle);
	if (pool) {
		/* memory of an earlier pool with this handle is not this pool's */
		pool->used = bytes < 0 && pool->used < (uint64_t)-bytes
				     ? 0
				     : pool->used + (uint64_t)bytes;
		if (pool->destroyed)
			keep_used(pool);
	}
	lock_release(&pools.lock);
}

void pools_count_free(void *handle, uint64_t bytes)
{
	change_used(handle, -(int64_t)bytes);
}

void pools_count_failed_free(void *handle, uint64_t bytes)
{
	change_used(handle, (int64_t)bytes);
}
