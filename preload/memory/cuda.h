/* The questions that the preload asks CUDA, through the real functions. No function here creates a
 * context. */
#ifndef PRELOAD_CUDA_H
#define PRELOAD_CUDA_H

#include <stdint.h>

/* Calls of SYMBOL go to FUNCTION: of two copies of a library, questions go to the copy that
 * calls go to. The first function of each library counts. */
void cuda_uses(const char *symbol, const void *function);

/* A library was unloaded: cuda_uses() will name the functions that are left. */
void cuda_uses_none(void);

/* The device of the calling thread's current context, or -1. */
int cuda_current_device(void);

/* The current device of the runtime that defines FUNCTION, with a context or without; -1: unknown.
 * A wrapper of a driver call must not call this: the runtime may be its caller and hold its own
 * lock. */
int cuda_runtime_device(const void *function);

/* Free and total bytes of the current device; 0, or -1 if CUDA does not answer. */
int cuda_memory(uint64_t *free_bytes, uint64_t *total_bytes);

/* The calling thread's current context, or NULL. */
void *cuda_current_context(void);

/* Returns 1 if the primary context of DEVICE does not exist any more. */
int cuda_primary_is_gone(int device);

/* Bytes of the allocation that holds ADDRESS; 0: unknown. */
uint64_t cuda_range(uint64_t address);

/* Used and reserved bytes of *POOL; with *POOL NULL, of the current pool of DEVICE, which *POOL
 * then becomes. Returns 0 or -1. */
int cuda_pool(int device, void **pool, uint64_t *used, uint64_t *reserved);

/* Bytes that DEVICE reserves for graphs. Returns 0 or -1. */
int cuda_graph_memory(int device, uint64_t *reserved);

/* Returns 1 if work on STREAM is being captured into a graph: an allocation call then allocates
 * nothing yet. */
int cuda_is_capturing(void *stream);

/* Returns 1 if the device is simulated (libcudasim.so). */
int cuda_is_simulated(void);

/* Returns 1 if the simulated device was used and comes before this library in LD_PRELOAD, so that
 * its functions are called instead of ours. */
int cuda_is_simulated_unseen(void);

/* Writes names of devices and versions of libraries into the tables. Slow; for the helper thread.
 */
void cuda_describe(void);

/* The device of POOL, or OTHERWISE if CUDA does not report one. */
unsigned cuda_device_of_pool(void *pool, unsigned otherwise);

/* Call this in a forked child, or when a library was unloaded. */
void cuda_forget(void);

#endif
