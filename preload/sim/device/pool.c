/* Stream-ordered pools: cudaMallocAsync takes bytes that the pool has reserved from the device.
 * A pool grows in steps of 32 MiB (the first reservation that drivers since CUDA 11.4 report).
 * The driver remaps physical pages inside a pool, so it is modelled without fragmentation:
 * reserved is the peak of used, rounded up, until a trim or a synchronisation gives back the
 * bytes above the release threshold. */
#include "device/pool.h"

#include "device/common.h"
#include "device/device.h"
#include "device/memory.h"
#include "device/settings.h"

#include <cuda.h>
#include <stdlib.h>

#define STEP MIB(32)

struct pool {
	uint64_t used, used_high, reserved, reserved_high, threshold;
	uint64_t most; /* maxSize of a pool made by the caller; 0: the card */
	int device;
	int reuse[3]; /* the reuse policy switches: kept, without effect */
	bool made;
	struct heap heap;
	struct pool *next;
};

static struct pool defaults[MAX_DEVICES], *chosen[MAX_DEVICES], *others;

static void pool_init(struct pool *pool, int device, uint64_t most)
{
	*pool = (struct pool){ .device = device,
			       .most = most,
			       .reuse = { 1, 1, 1 },
			       .made = true,
			       .heap = { .small.boundary = GRANULE, .device = device } };
}

static struct pool *default_pool(int device)
{
	if (!defaults[device].made)
		pool_init(&defaults[device], device, 0);
	return &defaults[device];
}

static struct pool *current_pool(int device)
{
	return chosen[device] ? chosen[device] : default_pool(device);
}

/* A handle is the pool's address: it is compared with the existing pools before it is
 * dereferenced. */
static bool pool_known(const struct pool *pool)
{
	for (int i = 0; i < MAX_DEVICES; i++)
		if (pool == &defaults[i])
			return default_pool(i);
	for (struct pool *p = others; p; p = p->next)
		if (p == pool)
			return true;
	return false;
}

struct heap *pool_heap(struct pool *pool)
{
	return &pool->heap;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

int pool_charge(struct pool *pool, uint64_t bytes)
{
	uint64_t need = round_up(pool->used + bytes, STEP);
	if (pool->most && pool->used + bytes > pool->most)
		return SIM_OUT_OF_MEMORY;
	if (need > pool->reserved) {
		int error = device_charge(pool->device, need - pool->reserved);
		if (error)
			return error;
		pool->reserved = need;
	}
	pool->used += bytes;
	pool->used_high = higher(pool->used_high, pool->used);
	pool->reserved_high = higher(pool->reserved_high, pool->reserved);
	return SIM_OK;
}

void pool_refund(struct pool *pool, uint64_t bytes)
{
	pool->used -= bytes;
}

static void pool_trim(struct pool *pool, uint64_t keep)
{
	uint64_t floor = round_up(pool->used, STEP), wanted = higher(floor, keep);
	if (wanted >= pool->reserved)
		return;
	wanted = round_up(wanted, STEP);
	device_refund(pool->device, pool->reserved - wanted);
	pool->reserved = wanted;
}

void pool_synchronized(int device)
{
	memory_lock();
	for (struct pool *p = others; p; p = p->next)
		if (p->device == device)
			pool_trim(p, p->threshold);
	if (defaults[device].made)
		pool_trim(&defaults[device], defaults[device].threshold);
	memory_unlock();
}

/* The runtime's and the driver's attribute numbers are the same; the field, and whether the caller
 * may reset it. */
static void *pool_field(struct pool *pool, int attribute, bool *wide)
{
	*wide = attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		return &pool->reuse[0];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		return &pool->reuse[1];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return &pool->reuse[2];
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	}
	return NULL;
}

int pool_attribute(struct pool *pool, int attribute, void *value)
{
	bool wide;
	memory_lock();
	void *field = pool_known(pool) ? pool_field(pool, attribute, &wide) : NULL;
	if (field && wide)
		*(uint64_t *)value = *(uint64_t *)field;
	else if (field)
		*(int *)value = *(int *)field;
	memory_unlock();
	return field ? SIM_OK : SIM_INVALID_VALUE;
}

/* The only value that a caller may give a highest level is 0: it is then the level of now. */
static bool begin_anew(struct pool *pool, uint64_t *high, uint64_t value)
{
	if (value)
		return false;
	*high = high == &pool->used_high ? pool->used : pool->reserved;
	return true;
}

int pool_set_attribute(struct pool *pool, int attribute, const void *value)
{
	bool wide, known;
	memory_lock();
	known = pool_known(pool);
	void *field = known ? pool_field(pool, attribute, &wide) : NULL;
	if (field == NULL || field == &pool->reserved || field == &pool->used)
		known = false;
	else if (field == &pool->reserved_high || field == &pool->used_high)
		known = begin_anew(pool, field, *(const uint64_t *)value);
	else if (wide)
		*(uint64_t *)field = *(const uint64_t *)value;
	else
		*(int *)field = *(const int *)value;
	memory_unlock();
	return known ? SIM_OK : SIM_INVALID_VALUE;
}

static int get(int device, struct pool *(*which)(int), void *handle)
{
	int error = device_use(device);
	if (error)
		return error;
	memory_lock();
	*(struct pool **)handle = which(device);
	memory_unlock();
	return SIM_OK;
}

int pool_get_default(int device, void *handle)
{
	return get(device, default_pool, handle);
}

int pool_get_current(int device, void *handle)
{
	return get(device, current_pool, handle);
}

int pool_choose(int device, struct pool *pool)
{
	if (device < 0 || device >= (int)settings.visible)
		return SIM_INVALID_DEVICE;
	memory_lock();
	bool known = pool_known(pool);
	if (known)
		chosen[device] = pool;
	memory_unlock();
	return known ? SIM_OK : SIM_INVALID_VALUE;
}

int pool_create(int device, uint64_t most, void *handle)
{
	int error = device_use(device);
	struct pool *pool = error ? NULL : calloc(1, sizeof *pool);
	if (!pool)
		return error ? error : SIM_OUT_OF_MEMORY;
	pool_init(pool, device, most);
	memory_lock();
	pool->next = others;
	others = pool;
	memory_unlock();
	*(struct pool **)handle = pool;
	return SIM_OK;
}

/* Live allocations keep their address. In the driver, the pool ends when the last one is freed;
 * here its record is kept, and everything unused is returned. */
int pool_destroy(struct pool *pool)
{
	int error = SIM_INVALID_VALUE;
	memory_lock();
	for (int i = 0; i < MAX_DEVICES; i++)
		if (chosen[i] == pool && pool_known(pool) && pool != &defaults[i])
			chosen[i] = NULL;
	for (struct pool **p = &others; *p; p = &(*p)->next)
		if (*p == pool) {
			pool->threshold = 0;
			pool_trim(pool, 0);
			error = SIM_OK;
			break;
		}
	memory_unlock();
	return error;
}

int pool_trim_to(struct pool *pool, uint64_t keep)
{
	memory_lock();
	bool known = pool_known(pool);
	if (known)
		pool_trim(pool, keep);
	memory_unlock();
	return known ? SIM_OK : SIM_INVALID_VALUE;
}

int pool_alloc(struct pool *pool, int device, uint64_t size, void *address)
{
	int error = device_use(pool ? pool->device : device);
	uint64_t base = 0;
	if (error)
		return error;
	memory_lock();
	if (!pool)
		pool = current_pool(device);
	bool known = pool_known(pool);
	memory_unlock();
	if (!known)
		return SIM_INVALID_VALUE;
	if (size)
		error = memory_alloc(size, pool->device, MEMORY_POOL, pool, &base);
	*(uint64_t *)address = base;
	return error;
}
