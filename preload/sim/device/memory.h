/* The device address space and the blocks allocated in it. */
#ifndef CUDASIM_MEMORY_H
#define CUDASIM_MEMORY_H

#include "device/common.h"
#include "device/extent.h"

enum memory_kind { MEMORY_LINEAR, MEMORY_MANAGED, MEMORY_POOL, MEMORY_RESERVED, MEMORY_MODULE };

struct pool;
struct heap {
	struct extents small; /* free 512-byte units of the granules that small blocks share */
	int device;
	bool charged; /* its granules count against the device (a pool counts its own bytes) */
};
struct block {
	uint64_t base, size, charged;
	enum memory_kind kind;
	int device;
	struct pool *pool;
	struct heap *heap; /* NULL: has whole granules of its own */
};

int memory_alloc(uint64_t size, int device, enum memory_kind kind, struct pool *pool,
		 uint64_t *address);
int memory_free(uint64_t address);
int memory_release_reservation(uint64_t address, uint64_t size);
bool memory_find(uint64_t address, struct block *found);
bool memory_is_device(const void *pointer);
/* Gives the host pages of a range back; it reads as zero afterwards. */
void memory_forget(uint64_t address, uint64_t size);
void memory_lock(void);
void memory_unlock(void);
/* cudaDeviceReset(): frees everything but pools. */
void memory_reset(int device);

/* The mapping of the granule at an address (api/vmm.c); NULL: outside the address space. */
struct mapping;
struct mapping **memory_mapping(uint64_t address);

#endif
