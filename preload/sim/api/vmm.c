/* Virtual memory management, as expandable segments use it: addresses, physical handles and the
 * mappings between them. A handle's bytes are charged once, and given back when its last
 * reference and its last mapping are gone. */
#include "api/vmm.h"

#include "device/common.h"
#include "device/device.h"
#include "device/memory.h"
#include "device/settings.h"

#include <cuda.h>
#include <stdlib.h>

enum { HOST = -1 };

struct physical {
	uint64_t size, number; /* the caller's handle: never reused, so an old one is recognised */
	int device;
	unsigned references, mappings;
	CUmemAllocationProp properties;
	struct physical *next;
};

struct mapping {
	struct physical *physical;
	uint64_t base, size;
};

enum { BUCKETS = 4096 };
static struct physical *handles[BUCKETS];
static uint64_t last_number;

static struct physical **handle_slot(uint64_t number)
{
	struct physical **slot = &handles[number % BUCKETS];
	while (*slot && (*slot)->number != number)
		slot = &(*slot)->next;
	return slot;
}

/* With the lock held: gives the bytes back if nothing holds them any more. */
static void physical_settle(struct physical *physical)
{
	if (physical->references || physical->mappings)
		return;
	if (physical->device != HOST)
		device_refund(physical->device, physical->size);
	*handle_slot(physical->number) = physical->next;
	free(physical);
}

int vmm_device(uint64_t address)
{
	memory_lock();
	struct mapping **slot = memory_mapping(address);
	int device = slot && *slot ? (*slot)->physical->device : -1;
	memory_unlock();
	return device;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					      CUmemAllocationGranularity_flags option)
{
	(void)prop, (void)option;
	*granularity = GRANULE;
	return (CUresult)sim_ready();
}

static int physical_add(int device, size_t size, const CUmemAllocationProp *prop,
			CUmemGenericAllocationHandle *handle)
{
	struct physical *physical = malloc(sizeof *physical);
	if (!physical)
		return SIM_OUT_OF_MEMORY;
	int error = device == HOST ? 0 : device_charge(device, size);
	if (error) {
		free(physical);
		return error;
	}
	memory_lock();
	*physical = (struct physical){ .size = size,
				       .number = ++last_number,
				       .device = device,
				       .references = 1,
				       .properties = *prop };
	*handle_slot(physical->number) = physical;
	*handle = physical->number;
	memory_unlock();
	return 0;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			    const CUmemAllocationProp *prop, unsigned long long flags)
{
	/* NCCL asks for host memory before any context exists; its location.id is not a device */
	int device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : HOST;
	int error = device == HOST ? sim_ready() : device_use(device);
	(void)flags;
	if (!error && (!size || size % GRANULE))
		error = SIM_INVALID_VALUE;
	if (!error && prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
		error = SIM_NOT_SUPPORTED;
	if (!error)
		error = physical_add(device, size, prop, handle);
	sim_log("cuMemCreate %zu on device %d: %d", size, device, error);
	return (CUresult)error;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	memory_lock();
	struct physical *physical = *handle_slot(handle);
	bool held = physical && physical->references;
	if (held) {
		physical->references--;
		physical_settle(physical);
	}
	memory_unlock();
	return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	memory_lock();
	struct mapping **slot = memory_mapping((uint64_t)address);
	struct mapping *mapping = slot ? *slot : NULL;
	if (mapping) {
		mapping->physical->references++;
		*handle = mapping->physical->number;
	}
	memory_unlock();
	return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						       CUmemGenericAllocationHandle handle)
{
	memory_lock();
	struct physical *physical = *handle_slot(handle);
	if (physical)
		*prop = physical->properties;
	memory_unlock();
	return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment,
				    CUdeviceptr hint, unsigned long long flags)
{
	int error = sim_ready();
	(void)alignment, (void)hint, (void)flags; /* a hint may be ignored */
	if (!error && (!size || size % GRANULE))
		error = SIM_INVALID_VALUE;
	if (!error)
		error = memory_alloc(size, device_current(), MEMORY_RESERVED, NULL,
				     (uint64_t *)address);
	return (CUresult)error;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
	return (CUresult)memory_release_reservation(address, size);
}

/* The range must lie in one reservation, with nothing mapped there yet. */
static bool range_free(uint64_t address, uint64_t size)
{
	for (uint64_t at = address; at < address + size; at += GRANULE) {
		struct mapping **slot = memory_mapping(at);
		if (!slot || *slot)
			return false;
	}
	return true;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
			 CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct block block;
	struct mapping *mapping = malloc(sizeof *mapping);
	(void)flags;
	bool good = mapping && size && size % GRANULE == 0 && address % GRANULE == 0 &&
		    offset % GRANULE == 0 && memory_find(address, &block) &&
		    block.kind == MEMORY_RESERVED && size <= block.base + block.size - address;
	memory_lock();
	struct physical *physical = *handle_slot(handle);
	good = good && physical && physical->references && size <= physical->size &&
	       offset <= physical->size - size && range_free(address, size);
	if (good) {
		*mapping = (struct mapping){ physical, address, size };
		physical->mappings++;
		for (uint64_t at = 0; at < size; at += GRANULE)
			*memory_mapping(address + at) = mapping;
	}
	memory_unlock();
	if (!good)
		free(mapping);
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Is the range made of whole mappings, without a gap? The driver unmaps no other one. */
static bool range_whole(uint64_t address, uint64_t size)
{
	uint64_t at = address;
	while (at < address + size) {
		struct mapping **slot = memory_mapping(at);
		if (!slot || !*slot || (*slot)->base != at)
			return false;
		at += (*slot)->size;
	}
	return at == address + size;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	memory_lock();
	bool good = size && range_whole(address, size);
	for (uint64_t at = address; good && at < address + size;) {
		struct mapping *mapping = *memory_mapping(at);
		memory_forget(mapping->base, mapping->size);
		for (uint64_t i = 0; i < mapping->size; i += GRANULE)
			*memory_mapping(at + i) = NULL;
		at += mapping->size;
		mapping->physical->mappings--;
		physical_settle(mapping->physical);
		free(mapping);
	}
	memory_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
			       size_t count)
{
	(void)access, (void)count; /* every access is granted */
	memory_lock();
	struct mapping **slot = memory_mapping(address);
	bool mapped = slot && *slot && size;
	memory_unlock();
	return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			       CUdeviceptr address)
{
	(void)location;
	memory_lock();
	struct mapping **slot = memory_mapping(address);
	*flags = slot && *slot ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	memory_unlock();
	return CUDA_SUCCESS;
}
