/*
 * The wrappers. A wrapper calls the real function, returns its result unchanged, and records its
 * effect on memory. A call made inside another wrapped call counts once, with the outermost.
 */
#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/hooks.h"

#include <stdint.h>
#include <string.h>

#include "memory/array.h"
#include "memory/cuda.h"
#include "memory/graphs.h"
#include "memory/memory.h"
#include "memory/pools.h"
#include "record/state.h"

#define SINCE_RT 0
#define SINCE_NCCL 0
#define SINCE_CU(version) version

const struct hook hooks[] = {
#define ALLOC(symbol, api, ...) \
	{ &("\1" #symbol)[1], (void *)symbol, (void **)&real_functions.symbol, SINCE_##api },
#define POOL ALLOC
#define FREE ALLOC
#define THEN ALLOC
#define ENDS ALLOC
#define CUSTOM(symbol, api) \
	{ &("\1" #symbol)[1], (void *)symbol, (void **)&real_functions.symbol, SINCE_##api },
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

/* In the twin of a function, the default stream is the thread's own. */
#define STREAM(symbol, stream)                                     \
	((stream)                   ? (void *)(stream)             \
	 : strstr(#symbol, "_ptsz") ? (void *)CU_STREAM_PER_THREAD \
				    : NULL)

#define CALL(symbol, api, args)                         \
	__typeof__(symbol) *call = REAL(symbol);        \
	RESULT_##api result = (RESULT_##api)NOT_LOADED; \
	if (!call)                                      \
		return result;

/* The body of a row that reads the result after the call. */
#define WRAPPER(symbol, api, params, args, afterwards)       \
	RESULT_##api symbol params                           \
	{                                                    \
		CALL(symbol, api, args)                      \
		nesting_enter(FRAME);                        \
		result = call args;                          \
		if (nesting_leave() && recording_may_be()) { \
			int ok = result == 0;                \
			(void)ok;                            \
			afterwards;                          \
		}                                            \
		return result;                               \
	}

/* The pointers in the arguments are read only if the call succeeded or found no memory. */
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
		if (nesting_enter(FRAME) && recording_already())                  \
			freed = memory_before_free(CALLER, (uintptr_t)(address)); \
		result = call args;                                               \
		if (nesting_leave() && freed.kind)                                \
			memory_after_free(CALLER, &freed, (int)result);           \
		return result;                                                    \
	}

/* The allocations that end are marked before the call: other threads may allocate during it. */
#define ENDS(symbol, api, params, args, context, device, if_gone)                        \
	RESULT_##api symbol params                                                       \
	{                                                                                \
		int ending = -1;                                                         \
		CALL(symbol, api, args)                                                  \
		if (nesting_enter(FRAME) && recording_already())                         \
			ending = memory_ending(context, device);                         \
		result = call args;                                                      \
		if (nesting_leave() && ending >= 0)                                      \
			memory_ended(CALLER, context, ending, result == 0 && (if_gone)); \
		return result;                                                           \
	}

#define CUSTOM(...)
#define SKIP(...)
#include "hooks/hooks.def"
