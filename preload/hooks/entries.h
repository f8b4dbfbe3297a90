/*
 * The entry points of hooks.def, to those who define or call them: their prototypes, and the real
 * functions behind them. Must be the first to include the vendor's headers.
 */
#ifndef PRELOAD_ENTRIES_H
#define PRELOAD_ENTRIES_H

#include <stdint.h>

#ifdef CUDA_VERSION
#error "entries.h includes cuda.h in its own way, and must come first"
#endif

/* The vendor's headers with every version and twin declared under its exported name, none renamed
 * by a macro. */
#define __CUDA_API_VERSION_INTERNAL
#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "hooks/nccl.h"

#if CUDART_VERSION < 12050 /* known to later runtimes: a call of it must be answered even when \
			      built with older headers */
cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long,
					     enum cudaDriverEntryPointQueryResult *);
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *, void **, unsigned,
						  unsigned long long,
						  enum cudaDriverEntryPointQueryResult *);
#endif

#if CUDART_VERSION >= 13000 /* and to earlier ones */
cudaError_t cudaThreadExit(void);
#endif

/* What "no such function is loaded" is in CUDA's own words: the number is the same in both APIs. */
#define NOT_LOADED CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND

#define CALLER __builtin_return_address(0)

#define EXPORT __attribute__((visibility("default")))

#define ALLOC(symbol, ...) EXPORT __typeof__(symbol) symbol;
#define POOL ALLOC
#define FREE ALLOC
#define THEN ALLOC
#define ENDS ALLOC
#define CUSTOM ALLOC
#define SKIP(...)
#include "hooks/hooks.def"
#undef ALLOC

/* The real functions, by exported name; NULL: not found yet. */
struct hooks_real {
#define ALLOC(symbol, ...) __typeof__(symbol) *symbol;
#include "hooks/hooks.def"
#undef ALLOC
#undef POOL
#undef FREE
#undef THEN
#undef ENDS
#undef CUSTOM
#undef SKIP
};

extern struct hooks_real hooks_real __attribute__((visibility("hidden")));

/* The function of SLOT, one of hooks_real's, that CALLER means, found among the loaded objects and
 * kept; NULL: nowhere. */
void *hooks_find(void *slot, const char *symbol, const void *caller);

/* The one that is found first, whoever asks. */
void *hooks_default(void *slot, const char *symbol);

/* In a wrapper: the real function for whoever called it. */
#define REAL(symbol) ((__typeof__(symbol) *)hooks_find(&hooks_real.symbol, #symbol, CALLER))
#define DEFAULT(symbol) ((__typeof__(symbol) *)hooks_default(&hooks_real.symbol, #symbol))

/* Wrapped calls that this thread is inside of: only the outermost records. */
extern __thread unsigned hooks_depth
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
extern __thread struct hooks_outermost {
	const char *frame;
	unsigned inside; /* calls that counted as inside of it */
} hooks_outermost __attribute__((tls_model("initial-exec"), visibility("hidden")));

#define FRAME ((const char *)__builtin_frame_address(0))

/* The outermost call was left and never returned: what counted as inside of it may not have been,
 * and is counted as lost. */
void hooks_count_left(void) __attribute__((visibility("hidden"), cold));

/*
 * A call is inside another one only if its frame is below. One that was left by longjmp() or by a
 * C++ exception is known by the next call's, which is not (a second try of the same). A deeper one
 * counts as inside: to know better we would have to read a stack that may be gone, or to unwind,
 * which would take libgcc into every host. hooks_count_left() counts those.
 */
static inline int hooks_is_nested(const char *frame)
{
	return hooks_depth && (uintptr_t)frame < (uintptr_t)hooks_outermost.frame;
}

/* Returns 1 in the outermost. */
static inline int hooks_enter(const char *frame)
{
	if (hooks_is_nested(frame)) {
		hooks_depth++;
		hooks_outermost.inside++;
		return 0;
	}
	if (__builtin_expect(hooks_depth, 0))
		hooks_count_left();
	hooks_outermost.frame = frame;
	hooks_outermost.inside = 0;
	hooks_depth = 1;
	return 1;
}

/* The call of the last hooks_enter() has returned. Returns 1 in the outermost. */
static inline int hooks_leave(void)
{
	return hooks_depth &&
	       --hooks_depth == 0; /* 0: a signal handler's call on another stack came between */
}

#endif
