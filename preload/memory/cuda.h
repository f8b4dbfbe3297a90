/* The few questions that the preload asks CUDA itself, always the real functions. Nothing here
 * makes a context. */
#ifndef PRELOAD_CUDA_H
#define PRELOAD_CUDA_H

#include <stdint.h>

/* Calls of SYMBOL go to FUNCTION: of two copies of a library, questions go to the same one. The
 * first function of each library counts. */
void cuda_uses(const char *symbol, const void *function);

/* A library was unloaded: cuda_uses() will name the functions that are left. */
void cuda_uses_none(void);

/* The device of the calling thread's current context, or -1. */
int cuda_current_device(void);

/* The current device of the runtime that FUNCTION is of, with a context or without, or -1. Not for
 * a driver call's wrapper: the runtime, which may have called it, can hold its own lock. */
int cuda_runtime_device(const void *function);

/* Free and total bytes of the current device; 0, or -1 when CUDA does not say. */
int cuda_memory(uint64_t *free_bytes, uint64_t *total_bytes);

/* The calling thread's current context, or NULL. */
void *cuda_current_context(void);

/* Does DEVICE's primary context exist no more? */
int cuda_primary_is_gone(int device);

/* Bytes of the allocation that holds ADDRESS; 0: unknown. */
uint64_t cuda_range(uint64_t address);

/* Used and reserved bytes of *POOL, or with NULL of the current pool of DEVICE, which it then is. 0
 * or -1. */
int cuda_pool(int device, void **pool, uint64_t *used, uint64_t *reserved);

/* Bytes that DEVICE holds for graphs. 0 or -1. */
int cuda_graph_memory(int device, uint64_t *reserved);

/* Is work on STREAM being captured into a graph? Then an allocation call gives nothing yet. */
int cuda_is_capturing(void *stream);

/* Is the device libcudasim.so's? */
int cuda_is_simulated(void);

/* Was that device used, and stands it where its functions are found before ours? */
int cuda_is_simulated_unseen(void);

/* Writes names of devices and versions of libraries into the tables. Slow; the helper thread's. */
void cuda_describe(void);

/* The device of POOL, or OTHERWISE where CUDA does not tell. */
unsigned cuda_device_of_pool(void *pool, unsigned otherwise);

/* In a forked child, or when a library was unloaded. */
void cuda_forget(void);

#endif
