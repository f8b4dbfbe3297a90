#define _GNU_SOURCE
#include "entries.h"

#include "vmm.h"

#include <stdint.h>
#include <string.h>

#include "liveset.h"
#include "lock.h"
#include "memory.h"
#include "physical.h"
#include "recorder.h"
#include "recording.h"

#define UNMAPPED_KEPT                                                                              \
	64 /* mappings of one call that can be restored if it fails; more than any caller has been \
	      seen to make */

static struct {
	struct lock lock;
	struct physical physical;
} v;

void vmm_forget(void)
{
	memset(&v, 0, sizeof(v));
}

/* Only the outermost wrapped call records, as everywhere. */
#define IS_OUTERMOST() (!hooks_is_nested(FRAME) && recording_already())

static int take_lock(void)
{
	int held = lock_acquire(&v.lock, LOCK_WAIT);

	if (!held)
		recorder_lose_event();
	return held;
}

static void record_gone(const struct mt_record *gone, const struct module *by)
{
	memory_event(liveset_freed_by(gone->kind), gone->device, gone->address, -gone->bytes, by,
		     memory_free_place(by, (uint64_t)gone->bytes));
}

static void created(const void *caller, enum mt_event kind, unsigned device, uint64_t handle,
		    uint64_t bytes)
{
	struct module by = module_of(caller);
	struct mt_record r = { .address = handle,
			       .bytes = (int64_t)bytes,
			       .place = memory_place(&by, bytes),
			       .kind = (uint8_t)kind,
			       .device = (uint8_t)device };

	if (take_lock()) {
		(void)physical_create(&v.physical, &r);
		lock_release(&v.lock);
	}
	memory_event(kind, device, handle, r.bytes, &by, r.place);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	__typeof__(cuMemCreate) *call = REAL(cuMemCreate);
	CUresult result = call ? call(handle, bytes, prop, flags) : NOT_LOADED;
	int on_device;

	if (hooks_is_nested(FRAME) || !recording_may_be() || !prop ||
	    (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY))
		return result;
	/* NCCL asks for host memory before there is any context; an id is a device's only where the
	 * type says so. */
	on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	if (!(on_device ? recording_on() : recording_already()))
		return result;
	if (result == CUDA_ERROR_OUT_OF_MEMORY && on_device)
		memory_refused(CALLER, bytes);
	if (result == CUDA_SUCCESS && handle)
		created(CALLER, on_device ? MT_PHYSICAL_ALLOC : MT_HOST_ALLOC,
			on_device ? (unsigned)prop->location.id : MT_NO_DEVICE, *handle, bytes);
	return result;
}

/* Another's memory, or ours by a detour: how much it is, the driver does not say. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
					CUmemAllocationHandleType type)
{
	__typeof__(cuMemImportFromShareableHandle) *call = REAL(cuMemImportFromShareableHandle);
	CUresult result = call ? call(handle, shared, type) : NOT_LOADED;

	if (result == CUDA_SUCCESS && handle && !hooks_is_nested(FRAME) && recording_on())
		created(CALLER, MT_ALIAS_OPEN, memory_current_device(), *handle, 0);
	return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	__typeof__(cuMemRetainAllocationHandle) *call = REAL(cuMemRetainAllocationHandle);
	CUresult result = call ? call(handle, address) : NOT_LOADED;

	if (result == CUDA_SUCCESS && handle && IS_OUTERMOST() && take_lock()) {
		physical_retain(&v.physical, *handle);
		lock_release(&v.lock);
	}
	return result;
}

/* As every free, recorded before it happens: afterwards another thread may be given the same
 * handle. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	__typeof__(cuMemRelease) *call = REAL(cuMemRelease);
	struct mt_record gone = { 0 };
	struct module by = { 0 };
	int ours = call && IS_OUTERMOST() && take_lock(), last = 0;
	CUresult result;

	if (ours) {
		last = physical_release(&v.physical, handle, &gone);
		lock_release(&v.lock);
	}
	if (last) {
		by = module_of(CALLER);
		record_gone(&gone, &by);
	}
	result = call ? call(handle) : NOT_LOADED;
	if (result == CUDA_SUCCESS || !ours)
		return result;
	if (last) {
		created(CALLER, gone.kind, gone.device, gone.address, (uint64_t)gone.bytes);
	} else if (take_lock()) {
		physical_retain(&v.physical, handle);
		lock_release(&v.lock);
	}
	return result;
}

static void mapped(uint64_t handle, struct mt_record *map, const struct module *by)
{
	int known = 0;

	if (take_lock()) {
		known = physical_map(&v.physical, handle, map);
		lock_release(&v.lock);
	}
	if (known)
		memory_event(MT_MAP, map->device, map->address, map->bytes, by, map->place);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	__typeof__(cuMemMap) *call = REAL(cuMemMap);
	CUresult result = call ? call(address, bytes, offset, handle, flags) : NOT_LOADED;
	struct mt_record map = { .address = address, .bytes = (int64_t)bytes, .kind = MT_MAP };
	struct module by;

	if (result != CUDA_SUCCESS || !IS_OUTERMOST())
		return result;
	by = module_of(CALLER);
	map.place = memory_place(&by, bytes);
	mapped(handle, &map, &by);
	return result;
}

struct unmapped {
	unsigned count;
	struct {
		struct mt_record map, gone; /* gone.kind 0: its handle is still there */
		uint64_t handle;
	} each[UNMAPPED_KEPT];
};

static void unmap(uint64_t address, uint64_t bytes, const struct module *by, struct unmapped *u)
{
	uint64_t end = address + bytes, next;

	u->count = 0;
	for (; address < end; address = next) {
		unsigned i = u->count < UNMAPPED_KEPT ? u->count : UNMAPPED_KEPT - 1;
		int found;
		u->each[i].gone.kind = 0;
		if (!take_lock())
			return;
		found = physical_unmap(&v.physical, address, &u->each[i].map, &u->each[i].handle,
				       &u->each[i].gone);
		if (!found) /* not seen when it was mapped: on to the next that was */
			next = physical_next_mapping(&v.physical, address, end);
		lock_release(&v.lock);
		if (!found)
			continue;
		next = address + (uint64_t)u->each[i].map.bytes;
		u->count = i + 1;
		memory_event(MT_UNMAP, u->each[i].map.device, address, -u->each[i].map.bytes, by,
			     memory_free_place(by, (uint64_t)u->each[i].map.bytes));
		if (u->each[i].gone.kind)
			record_gone(&u->each[i].gone, by);
	}
}

/* The driver did not unmap after all. */
static void restore(const void *caller, struct unmapped *u)
{
	struct module by = module_of(caller);
	struct mt_record unreferenced;

	for (unsigned i = 0; i < u->count; i++) {
		const struct mt_record *gone = &u->each[i].gone;
		if (gone->kind)
			created(caller, gone->kind, gone->device, gone->address,
				(uint64_t)gone->bytes);
		mapped(u->each[i].handle, &u->each[i].map, &by);
		if (gone->kind && take_lock()) { /* its references were gone before */
			(void)physical_release(&v.physical, gone->address, &unreferenced);
			lock_release(&v.lock);
		}
	}
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	__typeof__(cuMemUnmap) *call = REAL(cuMemUnmap);
	struct unmapped u;
	struct module by;
	CUresult result;

	if (!call)
		return NOT_LOADED;
	u.count = 0;
	if (IS_OUTERMOST()) {
		by = module_of(CALLER);
		unmap(address, bytes, &by, &u);
	}
	result = call(address, bytes);
	if (result != CUDA_SUCCESS && u.count)
		restore(CALLER, &u);
	return result;
}
