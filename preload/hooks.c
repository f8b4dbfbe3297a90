/*
 * The wrappers: each calls the real function, returns its result unchanged, and records what it did
 * to memory. A call made inside another wrapped call counts once, with the outermost.
 */
#define _GNU_SOURCE
#include "hooks.h"

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "account.h"
#include "cuda.h"
#include "liveset.h"
#include "lock.h"
#include "modules.h"
#include "pystack.h"
#include "recording.h"
#include "resolve.h"
#include "settings.h"

#define EXPORT __attribute__((visibility("default")))

#define PTSZ(symbol) __typeof__(symbol) symbol##_ptsz;
#define ALLOC(...)
#define POOL(...)
#define FREE(...)
#include "hooks.def"
#undef PTSZ
#undef ALLOC
#undef POOL
#undef FREE

#define PTSZ(symbol)
#define EACH(symbol) EXPORT __typeof__(symbol) symbol;
#define ALLOC(symbol, ...) EACH(symbol)
#define POOL(symbol, ...) EACH(symbol)
#define FREE(symbol, ...) EACH(symbol)
#include "hooks.def"
#undef EACH

static struct {
#define EACH(symbol) __typeof__(symbol) *symbol;
#include "hooks.def"
#undef EACH
} real;

/* The runtime allocations that are live: what a free of an address gives back. */
static struct {
	struct lock lock;
	struct liveset set;
	uint64_t pool_used[MT_MAX_DEVICES]; /* by our count, to see what the next allocation adds */
} live;

static __thread unsigned depth __attribute__((tls_model("initial-exec")));

void hooks_forget(void)
{
	memset(&live, 0, sizeof(live));
	memset(&real, 0, sizeof(real));
	modules_forget();
	account_forget();
}

/* Returns the real function, found once, or NULL. */
static void *find(void **slot, const char *symbol)
{
	void *f = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (!f) {
		f = resolve(symbol);
		__atomic_store_n(slot, f, __ATOMIC_RELAXED);
	}
	return f;
}

static uint32_t place_of(const struct module *by, uint64_t bytes)
{
	return bytes >= settings.STACK_MIN ? pystack_place(by->id) : pystack_module_place(by->id);
}

static unsigned current_device(void)
{
	int d = cuda_current_device();

	return d < 0 || d >= MT_MAX_DEVICES ? MT_NO_DEVICE : (unsigned)d;
}

static void keep(const struct mt_record *r)
{
	if (!lock_acquire(&live.lock, LOCK_MS(20)))
		return;
	(void)liveset_add(&live.set, r);
	lock_release(&live.lock);
}

static void record_allocation(unsigned kind, unsigned device, uint64_t address, uint64_t bytes,
			      const struct module *by, uint32_t place)
{
	struct mt_record r = { .address = address,
			       .bytes = (int64_t)bytes,
			       .place = place,
			       .kind = (uint8_t)kind,
			       .device = (uint8_t)device };

	keep(&r);
	recording_event(kind, device, address, (int64_t)bytes, place);
	if (kind == MT_HOST_ALLOC || kind == MT_MANAGED_ALLOC)
		return;
	account_device(device, (int64_t)bytes, kind == MT_POOL_ALLOC ? 0 : (int64_t)bytes,
		       by->is_allocator);
	if (!by->is_allocator || kind == MT_POOL_ALLOC)
		account_sample(device); /* PyTorch's own segments are sampled when it reports the
					   block they are for */
}

static void refused(const void *caller, uint64_t bytes)
{
	struct module by = module_of(caller);
	uint64_t free_bytes = MT_UNKNOWN, total;
	unsigned device = current_device();

	if (device != MT_NO_DEVICE && cuda_memory(&free_bytes, &total) != 0)
		free_bytes = MT_UNKNOWN;
	recording_event(MT_DEVICE_FAIL, device, free_bytes, (int64_t)bytes, pystack_place(by.id));
}

static void allocated(const void *caller, unsigned kind, cudaError_t result, void **address,
		      uint64_t bytes)
{
	struct module by;

	if (!recording_on())
		return;
	if (result != cudaSuccess) {
		if (result == cudaErrorMemoryAllocation && kind != MT_HOST_ALLOC)
			refused(caller, bytes);
		return;
	}
	if (!address || !*address)
		return;
	by = module_of(caller);
	record_allocation(kind, kind == MT_HOST_ALLOC ? MT_NO_DEVICE : current_device(),
			  (uintptr_t)*address, bytes, &by, place_of(&by, bytes));
}

/*
 * The pool rounds what it gives, in its own way: where its used counter grew by at least the
 * request and not much more, that is the size.
 */
static uint64_t size_in_pool(unsigned device, uint64_t bytes, uint64_t used)
{
	uint64_t grown = used - live.pool_used[device];

	return grown >= bytes && grown - bytes <= 2u << 20 ? grown : bytes;
}

static void pool_allocated(const void *caller, cudaError_t result, void **address, uint64_t bytes,
			   void *pool, void *stream)
{
	unsigned device;
	struct module by;
	uint64_t used, reserved, size = bytes;

	if (!recording_on())
		return;
	if (result != cudaSuccess) {
		if (result == cudaErrorMemoryAllocation)
			refused(caller, bytes);
		return;
	}
	if (!address || !*address || cuda_is_capturing(stream))
		return;
	device = current_device();
	by = module_of(caller);
	if (device != MT_NO_DEVICE && cuda_pool((int)device, pool, &used, &reserved) == 0) {
		if (lock_acquire(&live.lock, LOCK_MS(20))) {
			size = size_in_pool(device, bytes, used);
			live.pool_used[device] += size;
			lock_release(&live.lock);
		}
		account_pool(device, reserved);
	}
	record_allocation(MT_POOL_ALLOC, device, (uintptr_t)*address, size, &by,
			  place_of(&by, bytes));
}

/*
 * A free is recorded before it happens: afterwards another thread may already have been given the
 * address. Returns what was freed, so that a free that fails can be taken back; `kind` 0 when the
 * address is not known, which is none of our business.
 */
static struct mt_record before_free(const void *caller, uint64_t address)
{
	static const unsigned char kinds[] = { MT_DEVICE_ALLOC, MT_POOL_ALLOC, MT_MANAGED_ALLOC,
					       MT_HOST_ALLOC };
	struct mt_record freed = { 0 }, *found = NULL;
	struct module by;

	if (!address || !recording_on() || !lock_acquire(&live.lock, LOCK_MS(20)))
		return freed;
	for (unsigned i = 0; i < sizeof(kinds) && !found; i++)
		found = liveset_find(&live.set, kinds[i], address);
	if (found) {
		freed = *found;
		liveset_remove(&live.set, found);
		if (freed.kind == MT_POOL_ALLOC && freed.device < MT_MAX_DEVICES)
			live.pool_used[freed.device] -= (uint64_t)freed.bytes;
	}
	lock_release(&live.lock);
	if (!freed.kind)
		return freed;
	by = module_of(caller);
	recording_event(liveset_freed_by(freed.kind), freed.device, address, -freed.bytes,
			place_of(&by, (uint64_t)freed.bytes));
	if (freed.kind == MT_DEVICE_ALLOC || freed.kind == MT_POOL_ALLOC)
		account_device(freed.device, -freed.bytes,
			       freed.kind == MT_POOL_ALLOC ? 0 : -freed.bytes, by.is_allocator);
	return freed;
}

static void after_free(const void *caller, const struct mt_record *freed, cudaError_t result)
{
	struct module by;

	if (result == cudaSuccess || !freed->kind || !recording_on())
		return;
	by = module_of(caller);
	record_allocation(freed->kind, freed->device, freed->address, (uint64_t)freed->bytes, &by,
			  freed->place);
}

#undef ALLOC
#undef POOL
#undef FREE

/* Without the real function there is no CUDA to call; the caller learns that in CUDA's own words.
 */
#define REAL(symbol)                                                     \
	__typeof__(symbol) *call = find((void **)&real.symbol, #symbol); \
	if (!call)                                                       \
	return cudaErrorSharedObjectSymbolNotFound

#define ALLOC(symbol, params, args, kind, address, bytes)                                          \
	cudaError_t symbol params                                                                  \
	{                                                                                          \
		cudaError_t result;                                                                \
		REAL(symbol);                                                                      \
		depth++;                                                                           \
		result = call args;                                                                \
		if (--depth == 0)                                                                  \
			allocated(__builtin_return_address(0), MT_##kind, result, address, bytes); \
		return result;                                                                     \
	}

#define POOL(symbol, params, args, address, bytes, pool, stream)                                  \
	cudaError_t symbol params                                                                 \
	{                                                                                         \
		cudaError_t result;                                                               \
		REAL(symbol);                                                                     \
		depth++;                                                                          \
		result = call args;                                                               \
		if (--depth == 0)                                                                 \
			pool_allocated(__builtin_return_address(0), result, address, bytes, pool, \
				       stream);                                                   \
		return result;                                                                    \
	}

#define FREE(symbol, params, args, address)                                                     \
	cudaError_t symbol params                                                               \
	{                                                                                       \
		struct mt_record freed = { 0 };                                                 \
		cudaError_t result;                                                             \
		REAL(symbol);                                                                   \
		if (depth++ == 0)                                                               \
			freed = before_free(__builtin_return_address(0), (uintptr_t)(address)); \
		result = call args;                                                             \
		if (--depth == 0)                                                               \
			after_free(__builtin_return_address(0), &freed, result);                \
		return result;                                                                  \
	}

#include "hooks.def"
