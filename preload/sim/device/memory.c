/* The device address space and its allocations.
 *
 * One reserved range of addresses serves every device. Nothing in it costs host memory until
 * somebody touches it: big tensors, which only kernels touch, never do, and freeing gives touched
 * pages back. Physical bytes are counted, not held: 2 MiB granules for allocations of 1 MiB and
 * more, granules shared by the smaller ones, as the driver does.
 */
#define _GNU_SOURCE
#include "device/memory.h"

#include "device/common.h"
#include "device/device.h"
#include "device/taint.h"
#include "device/extent.h"
#include "device/pool.h"
#include "device/settings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { UNIT = 512, UNITS = (2 << 20) / UNIT };
#define SMALL MIB(1) /* smaller allocations share granules */
#define MAX_SPAN \
	(1ull << 45) /* 32 TiB: expandable segments reserve a whole card per stream and pool */
#define MIN_SPAN (1ull << 40)
#define WHERE \
	0x700000000000ull /* a hint: the same addresses in every run, where the kernel agrees */

/* A granule that small blocks share. */
struct slab {
	uint64_t base;
	unsigned live;
	struct block *at[UNITS]; /* the block that begins at this unit */
};

/* The contents of a granule of the address space. */
struct granule {
	struct block *block;
	struct slab *slab;
	struct mapping *mapping;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t base, span;
static struct granule *granules;
static struct extents space; /* free addresses */
static struct heap heaps[MAX_DEVICES];

void memory_lock(void)
{
	pthread_mutex_lock(&lock);
}
void memory_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static void *reserve(uint64_t where, uint64_t bytes)
{
	void *p = mmap((void *)where, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* The range is made at the first allocation: a process that never uses CUDA maps nothing. */
static bool space_ready(void)
{
	if (granules)
		return true;
	void *range = NULL;
	for (span = MAX_SPAN; span >= MIN_SPAN && !range; span /= 2)
		range = reserve(WHERE, span + GRANULE);
	span *= 2;
	if (range)
		granules = reserve(0, span / GRANULE * sizeof *granules);
	if (!range || !granules) {
		sim_say("cannot reserve %llu bytes of address space for device memory (ulimit -v, or vm.overcommit_memory=2?)",
			(unsigned long long)span);
		return false;
	}
	/* one written byte must not cost a 2 MiB page, and a core dump must not hold the card's
	 * memory */
	madvise(range, span + GRANULE, MADV_NOHUGEPAGE);
	madvise(range, span + GRANULE, MADV_DONTDUMP);
	base = round_up((uint64_t)range, GRANULE);
	for (int i = 0; i < MAX_DEVICES; i++)
		heaps[i] = (struct heap){ .small.boundary = GRANULE, .device = i, .charged = true };
	return extents_give(&space, base, span);
}

bool memory_is_device(const void *pointer)
{
	return granules && (uint64_t)pointer - base < span;
}

/* For an address that the device gave out. */
static struct granule *granule_at(uint64_t address)
{
	return &granules[(address - base) / GRANULE];
}

/* For any address; NULL: it is not the device's. */
static struct granule *granule_of(uint64_t address)
{
	return memory_is_device((void *)address) ? granule_at(address) : NULL;
}

struct mapping **memory_mapping(uint64_t address)
{
	struct granule *granule = granule_of(address);
	return granule ? &granule->mapping : NULL;
}

void memory_forget(uint64_t address, uint64_t size)
{
	taint_clear((void *)address, size);
	uint64_t end = address + size, first = round_up(address, 4096), last = end / 4096 * 4096;
	if (first >= last) {
		memset((void *)address, 0, size);
		return;
	}
	memset((void *)address, 0, first - address);
	memset((void *)last, 0, end - last);
	madvise((void *)first, last - first, MADV_DONTNEED);
}

/* ---- whole granules */

static uint64_t addresses_take(uint64_t size, uint64_t alignment, struct block *owner)
{
	uint64_t address;
	if (!extents_take(&space, size, alignment, &address))
		return 0;
	for (uint64_t at = 0; at < size; at += GRANULE)
		granule_at(address + at)->block = owner;
	return address;
}

static void addresses_give(uint64_t address, uint64_t size)
{
	memory_forget(address, size);
	for (uint64_t at = 0; at < size; at += GRANULE)
		*granule_at(address + at) = (struct granule){ 0 };
	extents_give(&space, address, size);
}

/* ---- granules that small blocks share */

static bool slab_add(struct heap *heap)
{
	struct slab *slab = calloc(1, sizeof *slab);
	if (!slab)
		return false;
	if (heap->charged && device_charge(heap->device, GRANULE)) {
		free(slab);
		return false;
	}
	slab->base = addresses_take(GRANULE, GRANULE, NULL);
	if (!slab->base) {
		if (heap->charged)
			device_refund(heap->device, GRANULE);
		free(slab);
		return false;
	}
	granule_at(slab->base)->slab = slab;
	extents_give(&heap->small, slab->base, GRANULE);
	return true;
}

static bool slab_take(struct heap *heap, struct block *block)
{
	uint64_t need = round_up(block->size, UNIT);
	if (!extents_take(&heap->small, need, UNIT, &block->base) &&
	    (!slab_add(heap) || !extents_take(&heap->small, need, UNIT, &block->base)))
		return false;
	struct slab *slab = granule_at(block->base)->slab;
	slab->at[(block->base - slab->base) / UNIT] = block;
	slab->live++;
	block->heap = heap;
	return true;
}

static void slab_give(struct block *block)
{
	struct heap *heap = block->heap;
	struct slab *slab = granule_at(block->base)->slab;
	uint64_t need = round_up(block->size, UNIT);
	memory_forget(block->base, need);
	slab->at[(block->base - slab->base) / UNIT] = NULL;
	extents_give(&heap->small, block->base, need);
	if (--slab->live)
		return;
	extents_take_at(&heap->small, slab->base, GRANULE);
	if (heap->charged)
		device_refund(heap->device, GRANULE);
	addresses_give(slab->base, GRANULE);
	free(slab);
}

/* ---- blocks */

static int charge(struct block *block)
{
	if (block->kind == MEMORY_POOL)
		return pool_charge(block->pool, block->charged = round_up(block->size, UNIT));
	if (block->kind == MEMORY_LINEAR)
		return device_charge(block->device,
				     block->charged = round_up(block->size, GRANULE));
	return SIM_OK; /* reserved addresses are not memory; managed pages live on the host until a
			  kernel faults */
}

static void refund(struct block *block)
{
	if (block->kind == MEMORY_POOL)
		pool_refund(block->pool, block->charged);
	else if (block->charged)
		device_refund(block->device, block->charged);
}

static int block_place(struct block *block)
{
	bool small = block->size < SMALL && block->kind != MEMORY_RESERVED;
	struct heap *heap = block->pool ? pool_heap(block->pool) : &heaps[block->device];
	if (small && block->kind == MEMORY_LINEAR) /* its granule is counted instead */
		return slab_take(heap, block) ? SIM_OK : SIM_OUT_OF_MEMORY;
	int error = charge(block);
	if (error)
		return error;
	if (small && block->kind == MEMORY_POOL) {
		if (slab_take(heap, block))
			return SIM_OK;
	} else {
		block->base = addresses_take(round_up(block->size, GRANULE), GRANULE, block);
		if (block->base)
			return SIM_OK;
	}
	refund(block);
	return SIM_OUT_OF_MEMORY;
}

int memory_alloc(uint64_t size, int device, enum memory_kind kind, struct pool *pool,
		 uint64_t *address)
{
	struct block *block = calloc(1, sizeof *block);
	int error = SIM_OUT_OF_MEMORY;
	*address = 0;
	if (!block || size > MAX_SPAN) {
		free(block);
		return SIM_OUT_OF_MEMORY;
	}
	*block = (struct block){ .size = size, .device = device, .kind = kind, .pool = pool };
	memory_lock();
	if (space_ready())
		error = block_place(block);
	memory_unlock();
	if (error)
		free(block);
	else
		*address = block->base; /* NOLINT(clang-analyzer-unix.Malloc): its granules or its
					   slab hold the block */
	uint64_t available, total;
	device_memory(device, &available, &total);
	sim_log("allocate %llu on device %d: %s, %llu free", (unsigned long long)size, device,
		error ? "out of memory" : "done", (unsigned long long)available);
	return error;
}

/* The block that begins at the address, or (not `exact`) holds it. */
static struct block *block_at(uint64_t address, bool exact)
{
	struct granule *granule = granule_of(address);
	if (!granule)
		return NULL;
	struct block *block = granule->block;
	if (granule->slab) {
		uint64_t unit = (address - granule->slab->base) / UNIT;
		block = granule->slab->at[unit];
		while (!block && !exact && unit)
			block = granule->slab->at[--unit];
	}
	if (!block || (exact ? block->base != address : address - block->base >= block->size))
		return NULL;
	return block;
}

static void block_release(struct block *block)
{
	bool small = block->heap;
	if (small)
		slab_give(block);
	if (!small || block->kind == MEMORY_POOL)
		refund(block);
	if (!small)
		addresses_give(block->base, round_up(block->size, GRANULE));
	free(block);
}

int memory_free(uint64_t address)
{
	memory_lock();
	struct block *block = block_at(address, true);
	bool mine = block && block->kind != MEMORY_RESERVED;
	if (mine)
		block_release(block);
	memory_unlock();
	sim_log("free %p%s", (void *)address, mine ? "" : ": not an allocation");
	return mine ? SIM_OK : SIM_INVALID_VALUE;
}

/* cuMemAddressFree: only a whole reservation, and nothing may be mapped in it. */
int memory_release_reservation(uint64_t address, uint64_t size)
{
	memory_lock();
	struct block *block = block_at(address, true);
	bool mine = block && block->kind == MEMORY_RESERVED && block->size == size;
	for (uint64_t at = 0; mine && at < size; at += GRANULE)
		mine = !granule_at(address + at)->mapping;
	if (mine)
		block_release(block);
	memory_unlock();
	return mine ? SIM_OK : SIM_INVALID_VALUE;
}

bool memory_find(uint64_t address, struct block *found)
{
	memory_lock();
	struct block *block = block_at(address, false);
	if (block)
		*found = *block;
	memory_unlock();
	return block;
}

/* Walks the used granules from the lowest: first-fit keeps them low. */
void memory_reset(int device)
{
	memory_lock();
	uint64_t end = base + (granules ? span : 0);
	if (space.count &&
	    space.list[space.count - 1].start + space.list[space.count - 1].length == end)
		end = space.list[space.count - 1].start;
	for (uint64_t at = base; at < end; at += GRANULE) {
		struct granule *granule = granule_at(at);
		struct block *block = granule->block;
		for (unsigned unit = 0; granule->slab && unit < UNITS; unit++) {
			struct block *small = granule->slab->at[unit];
			if (small && small->device == device && small->kind != MEMORY_POOL)
				block_release(small); /* the slab is freed with its last block */
		}
		if (block && block->device == device &&
		    (block->kind == MEMORY_LINEAR || block->kind == MEMORY_MANAGED))
			block_release(block);
	}
	memory_unlock();
}
