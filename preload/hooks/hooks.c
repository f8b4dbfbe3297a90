/*
 * The wrappers: each calls the real function, returns its result unchanged, and records what it did
 * to memory. A call made inside another wrapped call counts once, with the outermost.
 */
#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/hooks.h"

#include <stdint.h>
#include <string.h>

#include "memory/array.h"
#include "memory/cuda.h"
#include "memory/graphs.h"
#include "base/lock.h"
#include "memory/memory.h"
#include "memory/pools.h"
#include "record/losses.h"
#include "record/state.h"
#include "symbols/resolve.h"
#include "symbols/scope.h"

struct hooks_real hooks_real;
__thread unsigned hooks_depth;
__thread struct hooks_outermost hooks_outermost;

void hooks_count_left(void)
{
	/* The first of them may well have been inside, as a runtime's call of the driver is. */
	for (unsigned i = 1; i < hooks_outermost.inside && i < 1000000; i++)
		losses_count(MT_LOST_LIMIT);
}

#define SINCE_RT 0
#define SINCE_NCCL 0
#define SINCE_CU(version) version

const struct hook hooks[] = {
#define ALLOC(symbol, api, ...) \
	{ &("\1" #symbol)[1], (void *)symbol, (void **)&hooks_real.symbol, SINCE_##api },
#define POOL ALLOC
#define FREE ALLOC
#define THEN ALLOC
#define ENDS ALLOC
#define CUSTOM(symbol, api) \
	{ &("\1" #symbol)[1], (void *)symbol, (void **)&hooks_real.symbol, SINCE_##api },
#define SKIP(...)
#include "hooks/hooks.def"
#undef ALLOC
#undef POOL
#undef FREE
#undef THEN
#undef ENDS
#undef CUSTOM
#undef SKIP
};
const unsigned hooks_count = sizeof(hooks) / sizeof(hooks[0]);

void *hooks_default(void *slot, const char *symbol)
{
	void *f = __atomic_load_n((void **)slot, __ATOMIC_RELAXED), *none = NULL;

	if (__builtin_expect(!f, 0)) {
		f = resolve(symbol);
		/* never over what a look-up found meanwhile */
		if (f && !__atomic_compare_exchange_n((void **)slot, &none, f, 0, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED))
			f = none;
		if (f)
			cuda_uses(symbol, f);
	}
	return f;
}

/*
 * Which real function a call goes to depends on who calls, once a process has two copies of a
 * library; and a second copy may come at any time, with callers of its own. So the choice is made
 * at each call's first return from a place in the code, and kept with that place.
 */
#define SITES 1024u
#define PROBES 4u

static struct {
	struct lock lock;            /* of those who write */
	_Atomic uint64_t generation; /* counts what hooks_forget_unloaded() made untrue */
	struct {
		_Atomic uint64_t key; /* return address, slot and generation; 0: free */
		_Atomic(void *) f;
	} site[SITES];
} choice;

_Static_assert(sizeof(struct hooks_real) / sizeof(void *) <= 256, "a slot's number has 8 bits");

static void *choose(void *slot, const char *symbol, const void *caller, uint64_t key, unsigned at)
{
	struct scope_choice c = scope_choose(symbol, caller);
	void *f = c.definitions > 1 && c.chosen ? c.chosen : NULL;

	if (!f || !__atomic_load_n((void **)slot, __ATOMIC_RELAXED)) {
		void *usual = hooks_default(slot, symbol);
		f = f ? f : usual;
	}
	if (!c.definitions || !f || !lock_acquire(&choice.lock, LOCK_MS(1)))
		return f;
	for (unsigned i = 0; i < PROBES; i++)
		if (!atomic_load(&choice.site[(at + i) % SITES].key)) {
			at = (at + i) % SITES;
			break;
		}
	atomic_store(&choice.site[at].key, 0); /* readers skip the slot while it changes */
	atomic_store(&choice.site[at].f, f);
	atomic_store(&choice.site[at].key, key);
	lock_release(&choice.lock);
	return f;
}

void *hooks_find(void *slot, const char *symbol, const void *caller)
{
	uint64_t key = (uint64_t)(uintptr_t)caller << 12 |
		       (uint64_t)((void **)slot - (void **)&hooks_real) << 4 |
		       (atomic_load_explicit(&choice.generation, memory_order_relaxed) & 15);
	unsigned at = (unsigned)(key * 0x9e3779b97f4a7c15u >> 54) % SITES;

	for (unsigned i = 0; i < PROBES; i++) {
		unsigned k = (at + i) % SITES;
		void *f;
		if (atomic_load_explicit(&choice.site[k].key, memory_order_acquire) != key)
			continue;
		f = atomic_load_explicit(&choice.site[k].f, memory_order_acquire);
		if (atomic_load_explicit(&choice.site[k].key, memory_order_relaxed) == key)
			return f;
	}
	return choose(slot, symbol, caller, key, at);
}

void hooks_forget(void)
{
	lock_release(&choice.lock);
}

/* A function that is in no object now, and that another object has, was unloaded. */
void hooks_forget_unloaded(void)
{
	char path[2];

	cuda_uses_none();
	for (unsigned i = 0; i < hooks_count; i++) {
		void *f = __atomic_load_n(hooks[i].real, __ATOMIC_RELAXED);
		if (f && !resolve_module(f, path, sizeof(path)))
			__atomic_compare_exchange_n(hooks[i].real, &f, resolve(hooks[i].symbol), 0,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		f = __atomic_load_n(hooks[i].real, __ATOMIC_RELAXED);
		if (f)
			cuda_uses(hooks[i].symbol, f);
	}
	atomic_fetch_add(&choice.generation, 1);
	for (unsigned i = 0; i < SITES; i++)
		atomic_store(&choice.site[i].key, 0);
}

#define RESULT_RT cudaError_t
#define RESULT_CU(version) CUresult
#define AT(p) ((p) ? (uint64_t)(uintptr_t)(*(p)) : 0)

static uint64_t array_of(const struct cudaChannelFormatDesc *d, struct cudaExtent e,
			 unsigned levels, unsigned flags)
{
	return array_bytes(e.width, e.height, e.depth, (unsigned)(d->x + d->y + d->z + d->w),
			   levels, flags);
}

static struct cudaExtent make_extent(size_t width, size_t height, size_t depth)
{
	return (struct cudaExtent){ .width = width, .height = height, .depth = depth };
}

/* A default stream means the thread's own in the twin of a function. */
#define STREAM(symbol, stream)                                     \
	((stream)                   ? (void *)(stream)             \
	 : strstr(#symbol, "_ptsz") ? (void *)CU_STREAM_PER_THREAD \
				    : NULL)

#define CALL(symbol, api, args)                         \
	__typeof__(symbol) *call = REAL(symbol);        \
	RESULT_##api result = (RESULT_##api)NOT_LOADED; \
	if (!call)                                      \
		return result;

/* The body of a row that looks at the result afterwards. */
#define WRAPPER(symbol, api, params, args, afterwards)     \
	RESULT_##api symbol params                         \
	{                                                  \
		CALL(symbol, api, args)                    \
		hooks_enter(FRAME);                        \
		result = call args;                        \
		if (hooks_leave() && recording_may_be()) { \
			int ok = result == 0;              \
			(void)ok;                          \
			afterwards;                        \
		}                                          \
		return result;                             \
	}

/* The arguments are followed only if the call succeeded or found no memory. */
#define ALLOC(symbol, api, params, args, kind, address, bytes)                                  \
	WRAPPER(symbol, api, params, args,                                                      \
		memory_allocated(CALLER, MT_##kind, (int)result, ok ? (uintptr_t)(address) : 0, \
				 ok || (int)result == MEMORY_REFUSED ? (uint64_t)(bytes) : 0))

#define POOL(symbol, api, params, args, address, bytes, pool, stream)                        \
	WRAPPER(symbol, api, params, args,                                                   \
		memory_allocated_in_pool(CALLER, (int)result, ok ? address : 0, bytes, pool, \
					 STREAM(symbol, stream)))

#define THEN(symbol, api, params, args, action) WRAPPER(symbol, api, params, args, if (ok) action)

#define FREE(symbol, api, params, args, address)                                  \
	RESULT_##api symbol params                                                \
	{                                                                         \
		struct mt_record freed = { 0 };                                   \
		CALL(symbol, api, args)                                           \
		if (hooks_enter(FRAME) && recording_already())                    \
			freed = memory_before_free(CALLER, (uintptr_t)(address)); \
		result = call args;                                               \
		if (hooks_leave() && freed.kind)                                  \
			memory_after_free(CALLER, &freed, (int)result);           \
		return result;                                                    \
	}

/* The allocations that end are marked before the call: other threads may allocate during it. */
#define ENDS(symbol, api, params, args, context, device, if_gone)                        \
	RESULT_##api symbol params                                                       \
	{                                                                                \
		int ending = -1;                                                         \
		CALL(symbol, api, args)                                                  \
		if (hooks_enter(FRAME) && recording_already())                           \
			ending = memory_ending(context, device);                         \
		result = call args;                                                      \
		if (hooks_leave() && ending >= 0)                                        \
			memory_ended(CALLER, context, ending, result == 0 && (if_gone)); \
		return result;                                                           \
	}

#define CUSTOM(...)
#define SKIP(...)
#include "hooks/hooks.def"
