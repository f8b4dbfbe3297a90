#define _GNU_SOURCE
#include "pools.h"

#include <memtrace/trace.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "account.h"
#include "cuda.h"
#include "lock.h"

#define POOLS 128
#define ON_HOST 254u /* instead of a device */
#define UNIT 512u    /* what CUDA aligns allocations to */

struct pool {
	void *handle;  /* NULL: a free slot */
	uint64_t used; /* by our count, to see what the next allocation adds */
	uint64_t reserved;
	uint64_t ticket; /* drawn before `reserved` was asked */
	uint8_t device;
	uint8_t by_allocator; /* PyTorch's allocator takes from it */
	uint8_t destroyed;
};

static struct {
	struct lock lock;
	struct pool pool[POOLS];
	_Atomic uint64_t tickets;
	uint64_t level[MT_MAX_DEVICES];
} p;

void pools_forget(void)
{
	memset(&p, 0, sizeof(p));
}

/* The lock is held. DEVICE: where it is if it is new. NULL: no room, or no such device. */
static struct pool *find(void *handle, unsigned device)
{
	struct pool *room = NULL;

	if (!handle)
		return NULL;
	for (unsigned i = 0; i < POOLS; i++) {
		if (p.pool[i].handle == handle)
			return &p.pool[i];
		if (!p.pool[i].handle && !room)
			room = &p.pool[i];
	}
	if (!room || (device >= MT_MAX_DEVICES && device != ON_HOST))
		return NULL;
	*room = (struct pool){ .handle = handle, .device = (uint8_t)device };
	return room;
}

/*
 * The lock is held, so that levels are recorded in their order. POOL held RESERVED bytes when it
 * was asked after TICKET was drawn: what was asked earlier comes too late. Each change is followed
 * by a question, so the last one knows.
 */
static void set_reserved(struct pool *pool, uint64_t reserved, uint64_t ticket)
{
	int64_t change = (int64_t)(reserved - pool->reserved);

	if (ticket < pool->ticket)
		return;
	pool->ticket = ticket;
	pool->reserved = reserved;
	p.level[pool->device] += (uint64_t)change;
	if (change)
		account_pool(pool->device, change, p.level[pool->device], pool->by_allocator);
	if (pool->destroyed && !pool->used)
		pool->handle = NULL;
}

static uint64_t draw_ticket(void)
{
	return atomic_fetch_add(&p.tickets, 1) + 1;
}

/* The lock is held. Another pool of that handle is no more: whatever is left of it was not seen to go. */
static void forget(struct pool *pool)
{
	if (pool->device != ON_HOST) {
		pool->used = 0;
		set_reserved(pool, 0, MT_UNKNOWN);
	}
	*pool = (struct pool){ 0 };
}

void pools_created(void *handle, int on_device, int device)
{
	struct pool *known;

	if (!lock_acquire(&p.lock, LOCK_WAIT))
		return;
	known = find(handle, MT_NO_DEVICE);
	if (known)
		forget(known);
	(void)find(handle, on_device ? (unsigned)device : ON_HOST);
	lock_release(&p.lock);
}

/* Where *HANDLE is: a pool that is not known may be another device's than the current one. */
static unsigned device_of(void *handle, unsigned current)
{
	const struct pool *pool = NULL;
	unsigned device = current;

	if (handle && lock_acquire(&p.lock, LOCK_WAIT)) {
		pool = find(handle, MT_NO_DEVICE);
		if (pool)
			device = pool->device;
		lock_release(&p.lock);
	}
	return pool || !handle ? device : cuda_device_of_pool(handle, current);
}

int pools_on_host(void *handle)
{
	const struct pool *pool;
	int on_host;

	if (!handle || !lock_acquire(&p.lock, LOCK_WAIT))
		return 0;
	pool = find(handle, MT_NO_DEVICE);
	on_host = pool && pool->device == ON_HOST;
	lock_release(&p.lock);
	return on_host;
}

/* The lock is held. POOL is destroyed: it holds what is used of it. */
static void settle_destroyed(struct pool *pool)
{
	pool->destroyed = 1;
	set_reserved(pool, pool->used, MT_UNKNOWN);
}

void pools_destroyed(void *handle)
{
	struct pool *pool;

	if (!lock_acquire(&p.lock, LOCK_WAIT))
		return;
	pool = find(handle, MT_NO_DEVICE);
	if (pool && pool->device == ON_HOST)
		pool->handle = NULL;
	else if (pool)
		settle_destroyed(pool);
	lock_release(&p.lock);
}

void pools_sample(void *handle)
{
	uint64_t used, reserved, ticket = draw_ticket();
	struct pool *pool;

	if (cuda_pool(0, &handle, &used, &reserved) != 0 || !lock_acquire(&p.lock, LOCK_WAIT))
		return;
	pool = find(handle, MT_NO_DEVICE);
	if (pool && pool->device != ON_HOST)
		set_reserved(pool, reserved, ticket);
	lock_release(&p.lock);
}

/*
 * The pool rounds what it gives, in its own way: where its used counter grew by the request and
 * less than a unit more, that is the size. Where it did not, other threads were at it too.
 */
static uint64_t size_in_pool(const struct pool *pool, uint64_t bytes, uint64_t used)
{
	uint64_t grown = used - pool->used;

	return grown >= bytes && grown - bytes < UNIT ? grown : (bytes + UNIT - 1) / UNIT * UNIT;
}

uint64_t pools_took(void **handle, unsigned *device, uint64_t bytes, int by_allocator)
{
	uint64_t used, reserved, ticket = draw_ticket();
	struct pool *pool;

	*device = device_of(*handle, *device);
	if ((*device == MT_NO_DEVICE && !*handle) ||
	    cuda_pool((int)*device, handle, &used, &reserved) != 0 ||
	    !lock_acquire(&p.lock, LOCK_WAIT))
		return bytes;
	pool = find(*handle, *device);
	if (pool) {
		*device = pool->device;
		bytes = size_in_pool(pool, bytes, used);
		pool->used += bytes;
		pool->by_allocator = pool->by_allocator || by_allocator;
		set_reserved(pool, reserved, ticket);
	}
	lock_release(&p.lock);
	return bytes;
}

static void count(void *handle, int64_t bytes)
{
	struct pool *pool;

	if (!lock_acquire(&p.lock, LOCK_WAIT))
		return;
	pool = find(handle, MT_NO_DEVICE);
	if (pool) {
		/* what an earlier pool of this handle gave is not this one's */
		pool->used = bytes < 0 && pool->used < (uint64_t)-bytes ? 0 : pool->used + (uint64_t)bytes;
		if (pool->destroyed)
			settle_destroyed(pool);
	}
	lock_release(&p.lock);
}

void pools_gave(void *handle, uint64_t bytes)
{
	count(handle, -(int64_t)bytes);
}

void pools_kept(void *handle, uint64_t bytes)
{
	count(handle, (int64_t)bytes);
}
