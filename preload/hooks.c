/*
 * The wrappers: each calls the real function, returns its result unchanged, and records what it did
 * to memory. A call made inside another wrapped call counts once, with the outermost.
 */
#define _GNU_SOURCE
#include "entries.h"

#include "hooks.h"

#include <stdint.h>
#include <string.h>

#include "array.h"
#include "cuda.h"
#include "graphs.h"
#include "memory.h"
#include "pools.h"
#include "recording.h"
#include "resolve.h"

struct hooks_real hooks_real;
__thread unsigned hooks_depth;

#define SINCE_RT 0
#define SINCE_NCCL 0
#define SINCE_CU(version) version

const struct hook hooks[] = {
#define ALLOC(symbol, api, ...) \
	{ #symbol, (void *)symbol, (void **)&hooks_real.symbol, SINCE_##api },
#define POOL ALLOC
#define FREE ALLOC
#define THEN ALLOC
#define CUSTOM(symbol, api) { #symbol, (void *)symbol, (void **)&hooks_real.symbol, SINCE_##api },
#define SKIP(...)
#include "hooks.def"
#undef ALLOC
#undef POOL
#undef FREE
#undef THEN
#undef CUSTOM
#undef SKIP
};
const unsigned hooks_count = sizeof(hooks) / sizeof(hooks[0]);

void *hooks_find(void *slot, const char *symbol)
{
	void *f = __atomic_load_n((void **)slot, __ATOMIC_RELAXED);

	if (__builtin_expect(!f, 0)) {
		f = resolve(symbol);
		if (f) /* never over what a look-up found meanwhile */
			__atomic_store_n((void **)slot, f, __ATOMIC_RELAXED);
	}
	return f;
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
#define WRAPPER(symbol, api, params, args, afterwards)           \
	RESULT_##api symbol params                               \
	{                                                        \
		CALL(symbol, api, args)                          \
		hooks_depth++;                                   \
		result = call args;                              \
		if (--hooks_depth == 0 && !recording_is_off()) { \
			int ok = result == 0;                    \
			(void)ok;                                \
			afterwards;                              \
		}                                                \
		return result;                                   \
	}

/* Only a call that succeeded, or found no memory, had arguments that can be followed. */
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
		if (hooks_depth++ == 0)                                           \
			freed = memory_before_free(CALLER, (uintptr_t)(address)); \
		result = call args;                                               \
		if (--hooks_depth == 0)                                           \
			memory_after_free(CALLER, &freed, (int)result);           \
		return result;                                                    \
	}

#define CUSTOM(...)
#define SKIP(...)
#include "hooks.def"
