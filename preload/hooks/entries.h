/*
 * The prototypes of the entry points of hooks.def, and a slot for each real function, for the
 * files that define or call them. This header must be the first that includes the vendor's
 * headers.
 */
#ifndef PRELOAD_ENTRIES_H
#define PRELOAD_ENTRIES_H

#include <stdint.h>

#ifdef CUDA_VERSION
#error "entries.h includes cuda.h in its own way, and must come first"
#endif

/* The vendor's headers with every version and twin declared under its exported name; no macro
 * renames one. */
#define __CUDA_API_VERSION_INTERNAL
#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "base/export.h"

#include "hooks/nccl.h"
#include "hooks/nesting.h"
#include "hooks/real.h"

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

/* CUDA's error for "no such function is loaded": the number is the same in both APIs. */
#define NOT_LOADED CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND

#define CALLER __builtin_return_address(0)

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
struct real_functions {
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

/* In a wrapper: the real function for its caller. */
#define REAL(symbol) ((__typeof__(symbol) *)real_find(&real_functions.symbol, #symbol, CALLER))
#define DEFAULT(symbol) ((__typeof__(symbol) *)real_default(&real_functions.symbol, #symbol))

#endif
