#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/vmm.h"

#include <stdint.h>
#include <string.h>

#include "record/live_set.h"
#include "base/lock.h"
#include "memory/memory.h"
#include "memory/physical.h"
#include "record/losses.h"
#include "record/state.h"

/* Mappings of one call that can be restored if it fails: PyTorch and NCCL unmap one at a time. */
#define UNMAPPED_KEPT 8

static struct {
	struct lock lock;
	struct physical physical;
} vmm;

void vmm_forget(void)
{
	memset(&vmm, 0, sizeof(vmm));
}

static int take_lock(void)
{
	int held = lock_acquire(&vmm.lock, LOCK_WAIT);

	if (!held)
		losses_count(MT_LOST_BUSY);
	return held;
}

static void record_gone(const struct mt_record *gone, const struct module *by)
{
	memory_event(live_set_freed_by(gone->kind), gone->device, gone->address, -gone->bytes, by,
		     memory_free_stack(by, (uint64_t)gone->bytes));
}

/* An allocation whose handle cannot be kept is counted as lost: its release would not be known. */
static void record_created(const void *caller, enum mt_event kind, unsigned device, uint64_t handle,
			   uint64_t bytes)
{
	struct module by = module_of(caller);
	struct mt_record gone = { 0 };
	struct mt_record r = { .address = handle,
			       .bytes = (int64_t)bytes,
			       .stack = memory_stack(&by, bytes),
			       .kind = (uint8_t)kind,
			       .device =
				       (uint8_t)(device < MT_MAX_DEVICES ? device : MT_NO_DEVICE) };
	int kept;

	if (!take_lock())
		return;
	kept = physical_create(&vmm.physical, &r, &gone) == 0;
	lock_release(&vmm.lock);
	if (gone.kind)
		record_gone(&gone, &by);
	if (kept)
		memory_event(kind, r.device, handle, r.bytes, &by, r.stack);
	else
		losses_count(MT_LOST_NO_MEMORY);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	__typeof__(cuMemCreate) *call = REAL(cuMemCreate);
	CUresult result = NOT_LOADED;
	int on_device;

	if (!call)
		return result;
	nesting_enter(FRAME);
	result = call(handle, bytes, prop, flags);
	if (!nesting_leave() || !recording_may_be() || !prop ||
	    (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY))
		return result;
	/* NCCL asks for host memory before there is any context; an id is a device's only if the
	 * type says so. */
	on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	if (!(on_device ? recording_on() : recording_already()))
		return result;
	if (result == CUDA_ERROR_OUT_OF_MEMORY && on_device)
		memory_refused(CALLER, bytes);
	if (result == CUDA_SUCCESS && handle)
		record_created(CALLER, on_device ? MT_PHYSICAL_ALLOC : MT_HOST_ALLOC,
			       on_device ? (unsigned)prop->location.id : MT_NO_DEVICE, *handle,
			       bytes);
	return result;
}

/* Memory of another process, or of this one through an export: the driver does not report its
 * size. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
					CUmemAllocationHandleType type)
{
	__typeof__(cuMemImportFromShareableHandle) *call = REAL(cuMemImportFromShareableHandle);
	CUresult result = NOT_LOADED;

	if (!call)
		return result;
	nesting_enter(FRAME);
	result = call(handle, shared, type);
	if (nesting_leave() && result == CUDA_SUCCESS && handle && recording_on())
		record_created(CALLER, MT_ALIAS_OPEN, memory_current_device(), *handle, 0);
	return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	__typeof__(cuMemRetainAllocationHandle) *call = REAL(cuMemRetainAllocationHandle);
	CUresult result = NOT_LOADED;

	if (!call)
		return result;
	nesting_enter(FRAME);
	result = call(handle, address);
	if (nesting_leave() && result == CUDA_SUCCESS && handle && recording_already() &&
	    take_lock()) {
		physical_retain(&vmm.physical, *handle);
		lock_release(&vmm.lock);
	}
	return result;
}

/* The release failed: undoes release_handle(). */
static void restore_handle(const void *caller, uint64_t handle, const struct mt_record *gone)
{
	if (gone->kind) {
		record_created(caller, gone->kind, gone->device, gone->address,
			       (uint64_t)gone->bytes);
	} else if (take_lock()) {
		physical_retain(&vmm.physical, handle);
		lock_release(&vmm.lock);
	}
}

/* Returns 0 if the lock is busy. GONE's kind is 0 unless this was the last reference or mapping
 * that kept the memory. */
static int release_handle(const void *caller, uint64_t handle, struct mt_record *gone)
{
	struct module by;

	if (!take_lock())
		return 0;
	(void)physical_release(&vmm.physical, handle, gone);
	lock_release(&vmm.lock);
	if (gone->kind) {
		by = module_of(caller);
		record_gone(gone, &by);
	}
	return 1;
}

/* Like every free, this is recorded before it happens: afterwards another thread may be given
 * the same handle. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	__typeof__(cuMemRelease) *call = REAL(cuMemRelease);
	struct mt_record gone = { 0 };
	int released = 0;
	CUresult result;

	if (!call)
		return NOT_LOADED;
	if (nesting_enter(FRAME) && recording_already())
		released = release_handle(CALLER, handle, &gone);
	result = call(handle);
	if (nesting_leave() && released && result != CUDA_SUCCESS)
		restore_handle(CALLER, handle, &gone);
	return result;
}

static void record_mapped(uint64_t handle, struct mt_record *map, const struct module *by)
{
	int known = 0;

	if (take_lock()) {
		known = physical_map(&vmm.physical, handle, map);
		lock_release(&vmm.lock);
	}
	if (known < 0)
		losses_count(MT_LOST_NO_MEMORY);
	else if (known)
		memory_event(MT_MAP, map->device, map->address, map->bytes, by, map->stack);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	__typeof__(cuMemMap) *call = REAL(cuMemMap);
	struct mt_record map = { .address = address, .bytes = (int64_t)bytes, .kind = MT_MAP };
	CUresult result = NOT_LOADED;
	struct module by;

	if (!call)
		return result;
	nesting_enter(FRAME);
	result = call(address, bytes, offset, handle, flags);
	if (!nesting_leave() || result != CUDA_SUCCESS || !recording_already())
		return result;
	by = module_of(CALLER);
	map.stack = memory_stack(&by, bytes);
	record_mapped(handle, &map, &by);
	return result;
}

struct unmapped {
	unsigned count, beyond; /* mappings that are kept here, and further ones */
	struct {
		struct mt_record map, gone; /* gone.kind 0: the handle still has references */
		uint64_t handle;
	} each[UNMAPPED_KEPT];
};

static void record_unmapped(uint64_t address, uint64_t bytes, const struct module *by,
			    struct unmapped *u)
{
	uint64_t end = address + bytes, next;

	for (; address < end; address = next) {
		unsigned i = u->count < UNMAPPED_KEPT ? u->count : UNMAPPED_KEPT - 1;
		int found;
		u->each[i].gone.kind = 0;
		if (!take_lock())
			return;
		found = physical_unmap(&vmm.physical, address, &u->each[i].map, &u->each[i].handle,
				       &u->each[i].gone);
		if (!found) /* a mapping that was not seen when it was made: on to the next */
			next = physical_next_mapping(&vmm.physical, address, end);
		lock_release(&vmm.lock);
		if (!found)
			continue;
		next = address + (uint64_t)u->each[i].map.bytes;
		u->beyond += u->count == UNMAPPED_KEPT;
		u->count = i + 1;
		memory_event(MT_UNMAP, u->each[i].map.device, address, -u->each[i].map.bytes, by,
			     memory_free_stack(by, (uint64_t)u->each[i].map.bytes));
		if (u->each[i].gone.kind)
			record_gone(&u->each[i].gone, by);
	}
}

/* The driver did not unmap after all. */
static void restore_mappings(const void *caller, struct unmapped *u)
{
	struct module by = module_of(caller);
	struct mt_record unreferenced;

	for (unsigned i = 0; i < u->beyond; i++)
		losses_count(MT_LOST_LIMIT);
	for (unsigned i = 0; i < u->count; i++) {
		const struct mt_record *gone = &u->each[i].gone;
		if (gone->kind)
			record_created(caller, gone->kind, gone->device, gone->address,
				       (uint64_t)gone->bytes);
		record_mapped(u->each[i].handle, &u->each[i].map, &by);
		/* The last reference to the handle was released before. */
		if (gone->kind && take_lock()) {
			(void)physical_release(&vmm.physical, gone->address, &unreferenced);
			lock_release(&vmm.lock);
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
	u.count = u.beyond = 0;
	if (nesting_enter(FRAME) && recording_already()) {
		by = module_of(CALLER);
		record_unmapped(address, bytes, &by, &u);
	}
	result = call(address, bytes);
	if (nesting_leave() && result != CUDA_SUCCESS && u.count)
		restore_mappings(CALLER, &u);
	return result;
}
