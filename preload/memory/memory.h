/*
 * Allocations and frees, as the wrappers report them. Each is kept in a live set (so that a free
 * by any call is recognised by its address), recorded, and counted. CALLER is the return address
 * of the outermost wrapped call: its module owns the memory. RESULT is CUDA's, 0 on success.
 */
#ifndef PRELOAD_MEMORY_H
#define PRELOAD_MEMORY_H

#include <memtrace/trace.h>
#include <stdint.h>

#include "memory/modules.h"
#include "python/pystack.h"
#include "process/settings.h"

#define MEMORY_REFUSED 2 /* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY */

/* An allocation call returned. ADDRESS 0: nothing was allocated. */
void memory_allocated(const void *caller, enum mt_event kind, int result, uint64_t address,
		      uint64_t bytes);
void memory_allocated_in_pool(const void *caller, int result, uint64_t address, uint64_t bytes,
			      void *pool, void *stream);

/*
 * A free is recorded before the real call: after it, another thread may already have the address.
 * Returns the allocation, so that a free that fails can be undone; `kind` 0 if the address is not
 * known.
 */
struct mt_record memory_before_free(const void *caller, uint64_t address);
void memory_after_free(const void *caller, const struct mt_record *freed, int result);

/*
 * A context may be about to end: CONTEXT, or with NULL the primary one of DEVICE. Its allocations
 * are marked, and freed if memory_ended() reports the context gone; pools stay. Returns the
 * argument ENDING of memory_ended(); negative: no allocation is concerned.
 */
int memory_ending(const void *context, int device);
void memory_ended(const void *caller, const void *context, int ending, int gone);

/* A context beside the primary ones was created. */
void memory_context_made(void *context);

/* Device memory may have changed in a way that no call shows: takes a sample if one is due. */
void memory_sample_if_due(void);

/* A request for BYTES was refused. */
void memory_refused(const void *caller, uint64_t bytes);

/* Records and counts BYTES (signed) on DEVICE. Returns the sequence number. */
uint64_t memory_event(enum mt_event kind, unsigned device, uint64_t address, int64_t bytes,
		      const struct module *by, uint32_t stack);

static inline uint32_t memory_module_stack(const struct module *by)
{
	return __builtin_expect(by->stack != 0, 1) ? by->stack : pystack_module_stack(by->id);
}

/* The stack of an allocation of BYTES. */
static inline uint32_t memory_stack(const struct module *by, uint64_t bytes)
{
	return bytes >= settings.STACK_MIN ? pystack_current(by->id) : memory_module_stack(by);
}

/* The stack of a free, which MEMTRACE_FREE_STACKS may leave without a stack. */
static inline uint32_t memory_free_stack(const struct module *by, uint64_t bytes)
{
	return settings.FREE_STACKS ? memory_stack(by, bytes) : memory_module_stack(by);
}

/* The current device, or MT_NO_DEVICE. */
unsigned memory_current_device(void);

/* Number of events of device memory that this thread has recorded: a wrapper compares it before and
 * after a call that may contain other wrapped calls. */
extern __thread unsigned memory_recorded
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

void memory_forget(void);

#endif
