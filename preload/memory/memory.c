#define _GNU_SOURCE
#include "memory/memory.h"

#include <stddef.h>
#include <string.h>

#include "memory/counters.h"
#include "memory/cuda.h"
#include "memory/graphs.h"
#include "record/live_set.h"
#include "base/lock.h"
#include "memory/pools.h"
#include "python/pystack.h"
#include "record/losses.h"
#include "record/event.h"
#include "record/state.h"
#include "process/settings.h"

#define CONTEXTS 64
#define CONTEXT 0x3fu /* in `thread` */
#define ENDING 0x80u  /* a call is under way that may end the context */
#define OF_DEVICE 8   /* the bits from here on */

/*
 * The live allocations, as the records that made them. Two fields have another meaning here.
 * `thread` is the context of the memory (0: a primary one), with the device of that context,
 * also for memory of the host. `time_ns` is the pool, or the number of further times that an
 * alias is open.
 */
static struct {
	struct lock lock;
	struct live_set set;
	_Atomic(void *) context[CONTEXTS]; /* made by cuCtxCreate; slot 0 stays empty */
	atomic_uint contexts; /* slots that were ever in use; 0: the program makes no contexts */
} live;

__thread unsigned memory_recorded;

static const uint8_t layers[] = {
#define EVENT(name, id, layer, effect, meaning) [id] = MT_LAYER_##layer,
#include <memtrace/events.def>
#undef EVENT
};

void memory_forget(void)
{
	memset(&live, 0, sizeof(live));
}

unsigned memory_current_device(void)
{
	int d = cuda_current_device();

	return d < 0 || d >= MT_MAX_DEVICES ? MT_NO_DEVICE : (unsigned)d;
}

uint64_t memory_event(enum mt_event kind, unsigned device, uint64_t address, int64_t bytes,
		      const struct module *by, uint32_t stack)
{
	uint64_t sequence = event_write(kind, device, address, bytes, stack);

	if (layers[kind] == MT_LAYER_DEVICE || layers[kind] == MT_LAYER_POOL) {
		memory_recorded++;
		if (counters_device(device, bytes, layers[kind] == MT_LAYER_POOL ? 0 : bytes, by))
			counters_peak_at(device, sequence);
		/* The segments of PyTorch's allocator are sampled when it reports the block that
		 * needed them; a free is recorded before it happens. */
		if (bytes > 0 && device < MT_MAX_DEVICES &&
		    (!by->is_allocator || !counters_reports(device)))
			counters_sample(device);
	} else if (bytes > 0 && !by->is_allocator) {
		counters_sample_owed(device);
	}
	graphs_read_owed();
	return sequence;
}

void memory_refused(const void *caller, uint64_t bytes)
{
	struct module by = module_of(caller);
	uint64_t free_bytes = MT_UNKNOWN, total, sequence;
	unsigned device = memory_current_device();

	if (device != MT_NO_DEVICE && cuda_memory(&free_bytes, &total) != 0)
		free_bytes = MT_UNKNOWN;
	memory_recorded++;
	sequence = event_write(MT_DEVICE_FAIL, device, free_bytes, (int64_t)bytes,
			       pystack_current(by.id));
	if (by.is_allocator && device != MT_NO_DEVICE && !counters_reports(device)) {
		counters_oom(device);
		event_out_of_memory(sequence, bytes, free_bytes);
	} else if (!by.is_allocator && device != MT_NO_DEVICE) {
		counters_refused(device);
	}
}

/* ---- contexts beside the primary ones */

static uint16_t find_context(const void *context)
{
	unsigned n = atomic_load_explicit(&live.contexts, memory_order_relaxed);

	for (unsigned i = 1; i < n && context; i++)
		if (atomic_load_explicit(&live.context[i], memory_order_relaxed) == context)
			return (uint16_t)i;
	return 0;
}

static uint16_t current_context(void)
{
	return atomic_load_explicit(&live.contexts, memory_order_relaxed)
		       ? find_context(cuda_current_context())
		       : 0;
}

void memory_context_made(void *context)
{
	if (lock_acquire(&live.lock, LOCK_WAIT)) {
		unsigned i = 1;
		while (i < CONTEXTS && atomic_load(&live.context[i]))
			i++;
		if (i < CONTEXTS) {
			atomic_store(&live.context[i], context);
			if (atomic_load(&live.contexts) <= i)
				atomic_store(&live.contexts, i + 1);
		} else { /* its end will not be known */
			losses_count(MT_LOST_LIMIT);
		}
		lock_release(&live.lock);
	} else {
		losses_count(MT_LOST_BUSY);
	}
	memory_sample_if_due();
}

/* ---- allocations */

/*
 * Makes R live: 1. 0: R is an alias that was open already; one more close is needed, and nothing
 * is new. -1: R cannot be kept, so its free will not be known. GONE is the earlier allocation at
 * that address, whose free was not seen.
 */
static int keep_live(const struct mt_record *r, struct mt_record *gone)
{
	struct mt_record *known;
	int kept;

	if (!lock_acquire(&live.lock, LOCK_WAIT)) {
		losses_count(MT_LOST_BUSY);
		return -1;
	}
	known = live_set_find(&live.set, r->kind, r->address);
	if (known && r->kind == MT_ALIAS_OPEN && !(known->thread & ENDING)) {
		known->time_ns++;
		lock_release(&live.lock);
		return 0;
	}
	if (known)
		*gone = *known;
	kept = live_set_add(&live.set, r) == 0;
	lock_release(&live.lock);
	if (!kept)
		losses_count(MT_LOST_NO_MEMORY);
	return kept ? 1 : -1;
}

static void record_free(const struct mt_record *freed, const struct module *by)
{
	memory_event(live_set_freed_by(freed->kind), freed->device, freed->address, -freed->bytes,
		     by, memory_free_stack(by, (uint64_t)freed->bytes));
	if (freed->kind == MT_POOL_ALLOC)
		pools_count_free((void *)(uintptr_t)freed->time_ns, (uint64_t)freed->bytes);
}

/* R was allocated; its stack is that of the call. */
static void record_alloc(const struct mt_record *r, const struct module *by)
{
	struct mt_record gone = { 0 };

	int kept = keep_live(r, &gone);

	if (gone.kind)
		record_free(&gone, by);
	if (kept > 0) {
		memory_event(r->kind, r->device, r->address, r->bytes, by, r->stack);
	} else if (kept < 0) {
		/* If it were counted, it would stay in the sums for ever; a sample includes it. */
		if (r->kind == MT_POOL_ALLOC)
			pools_count_free((void *)(uintptr_t)r->time_ns, (uint64_t)r->bytes);
		counters_sample(r->device);
	}
}

static int on_host(unsigned kind)
{
	return layers[kind] == MT_LAYER_HOST;
}

void memory_allocated(const void *caller, enum mt_event kind, int result, uint64_t address,
		      uint64_t bytes)
{
	struct mt_record r = { .address = address,
			       .bytes = (int64_t)bytes,
			       .kind = (uint8_t)kind,
			       .device = MT_NO_DEVICE };
	unsigned device;
	struct module by;

	/* Only memory of a device, or a refusal of it, begins a trace. */
	if ((result != 0 && result != MEMORY_REFUSED) ||
	    !(on_host(kind) ? recording_already() : recording_on()))
		return;
	if (result == MEMORY_REFUSED && !on_host(kind) && kind != MT_ALIAS_OPEN)
		memory_refused(caller, bytes);
	if (result != 0 || !address || (kind == MT_ARRAY_ALLOC && !bytes))
		return;
	by = module_of(caller);
	r.stack = memory_stack(&by, bytes);
	device = memory_current_device();
	r.thread = (uint16_t)(current_context() | device << OF_DEVICE);
	if (!on_host(kind))
		r.device = (uint8_t)device;
	record_alloc(&r, &by);
}

void memory_allocated_in_pool(const void *caller, int result, uint64_t address, uint64_t bytes,
			      void *pool, void *stream)
{
	struct mt_record r = { .address = address, .kind = MT_POOL_ALLOC };
	enum pool_kind kind;
	unsigned device;
	struct module by;

	if ((result != 0 && result != MEMORY_REFUSED) || !recording_on())
		return;
	if (result == MEMORY_REFUSED)
		memory_refused(caller, bytes);
	if (result != 0 || !address)
		return;
	if (cuda_is_capturing(stream)) { /* it becomes a node of a graph */
		graphs_allocate();
		return;
	}
	kind = pools_kind_of(pool);
	if (kind != POOL_OF_DEVICE) {
		memory_allocated(caller, kind == POOL_MANAGED ? MT_MANAGED_ALLOC : MT_HOST_ALLOC,
				 result, address, bytes);
		return;
	}
	by = module_of(caller);
	device = memory_current_device();
	r.bytes = (int64_t)pools_count_alloc(&pool, &device, bytes, by.is_allocator);
	r.device = (uint8_t)device;
	r.time_ns = (uintptr_t)pool;
	r.stack = memory_stack(&by, bytes);
	record_alloc(&r, &by);
}

/* ---- frees */

/* The lock is held. Fills FREED with the allocation that a free of ADDRESS ends; kind 0: none, or
 * not yet. */
static void take_freed(uint64_t address, struct mt_record *freed)
{
	static const unsigned char kinds[] = { MT_DEVICE_ALLOC, MT_POOL_ALLOC,  MT_MANAGED_ALLOC,
					       MT_HOST_ALLOC,   MT_ARRAY_ALLOC, MT_HOST_REGISTER,
					       MT_ALIAS_OPEN };
	struct mt_record *found = NULL;

	for (unsigned i = 0; i < sizeof(kinds) && !found; i++)
		found = live_set_find(&live.set, kinds[i], address);
	if (!found)
		return;
	if (found->kind == MT_ALIAS_OPEN && found->time_ns) {
		found->time_ns--;
		return;
	}
	*freed = *found;
	live_set_remove(&live.set, found);
}

struct mt_record memory_before_free(const void *caller, uint64_t address)
{
	struct mt_record freed = { 0 };
	struct module by;

	if (!address || !recording_already())
		return freed;
	if (!lock_acquire(&live.lock, LOCK_WAIT)) {
		losses_count(MT_LOST_BUSY);
		return freed;
	}
	take_freed(address, &freed);
	lock_release(&live.lock);
	if (!freed.kind)
		return freed;
	by = module_of(caller);
	record_free(&freed, &by);
	return freed;
}

void memory_after_free(const void *caller, const struct mt_record *freed, int result)
{
	struct module by;

	if (result == 0 || !freed->kind || !recording_already())
		return;
	by = module_of(caller);
	if (freed->kind == MT_POOL_ALLOC)
		pools_count_failed_free((void *)(uintptr_t)freed->time_ns, (uint64_t)freed->bytes);
	record_alloc(freed, &by);
}

/* ---- ends of contexts */

static int ends_with_context(const struct mt_record *r)
{
	return r->kind && r->kind != MT_POOL_ALLOC;
}

/* Does R belong to the context that ENDING (memory_ending()) stands for? */
static int is_of(const struct mt_record *r, int ending)
{
	unsigned context = (unsigned)ending & CONTEXT;

	return ends_with_context(r) && (r->thread & CONTEXT) == context &&
	       (context || r->thread >> OF_DEVICE == (unsigned)ending >> OF_DEVICE);
}

int memory_ending(const void *context, int device)
{
	unsigned i = context ? find_context(context) : 0;
	int ending = (int)(i | (unsigned)device << OF_DEVICE);

	if ((context && !i) || (!context && (device < 0 || device >= MT_MAX_DEVICES)))
		return -1;
	if (!lock_acquire(&live.lock, LOCK_WAIT)) {
		losses_count(MT_LOST_BUSY);
		return -1;
	}
	if (context)
		ending = (int)i;
	for (size_t k = 0; live.set.slot && k <= live.set.mask; k++)
		if (is_of(&live.set.slot[k], ending))
			live.set.slot[k].thread |= ENDING;
	lock_release(&live.lock);
	return ending;
}

/* Takes one of the marked allocations out, from slot *AT on, so that the lock is never held for
 * long; or only removes the marks. Returns 0 at the end. */
static int take_marked(int ending, int gone, size_t *at, struct mt_record *freed)
{
	freed->kind = 0;
	if (!lock_acquire(&live.lock, LOCK_WAIT)) {
		losses_count(MT_LOST_BUSY);
		return 0;
	}
	for (; live.set.slot && *at <= live.set.mask && !freed->kind; (*at)++) {
		struct mt_record *r = &live.set.slot[*at];
		if (!is_of(r, ending) || !(r->thread & ENDING))
			continue;
		r->thread &= (uint16_t)~ENDING;
		if (gone) {
			*freed = *r;
			live_set_remove(&live.set, r); /* may move another allocation here */
			(*at)--;
		}
	}
	lock_release(&live.lock);
	return freed->kind != 0;
}

void memory_ended(const void *caller, const void *context, int ending, int gone)
{
	struct module by = module_of(caller);
	struct mt_record freed;
	size_t at = 0;

	while (take_marked(ending, gone, &at, &freed))
		record_free(&freed, &by);
	if (context && gone)
		atomic_store(&live.context[(unsigned)ending & CONTEXT], NULL);
}

void memory_sample_if_due(void)
{
	if (recording_already())
		counters_sample(memory_current_device());
}
