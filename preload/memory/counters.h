/* The counters of each device in the trace's header, and samples of the device's free memory,
 * which show the changes that no call shows. */
#ifndef PRELOAD_COUNTERS_H
#define PRELOAD_COUNTERS_H

#include <memtrace/trace.h>
#include <stdint.h>

#include "memory/modules.h"

/*
 * PyTorch's allocator reported a block of BYTES (negative: freed); its totals are now ALLOCATED and
 * RESERVED. The caller holds the allocator's lock. Returns 1 if RESERVED changed since its last
 * report; *NEW_PEAK becomes 1 if ALLOCATED is a new peak, else 0.
 */
int counters_block(unsigned device, int64_t bytes, uint64_t allocated, uint64_t reserved,
		   int *new_peak);

/* Returns 1 if PyTorch's allocator reports its blocks on DEVICE. If it does not, its CUDA calls
 * stand for them. */
int counters_reports(unsigned device);

/* The record of a new `allocated_peak`. */
void counters_peak_at(unsigned device, uint64_t sequence);

/*
 * A CUDA call of BY allocated BYTES of device memory (negative: freed). FROM_DEVICE is the change
 * of what the device gave (0 for pool memory: see counters_pool()). Returns 1 at a new peak of the
 * calls that stand for PyTorch's blocks.
 */
int counters_device(unsigned device, int64_t bytes, int64_t from_device, const struct module *by);

/* The stream-ordered pools of DEVICE reserve LEVEL bytes now, CHANGE more than before.
 * BY_ALLOCATOR: the pool that changed is used by PyTorch's allocator. */
void counters_pool(unsigned device, int64_t change, uint64_t level, int by_allocator);

/* DEVICE reserves LEVEL bytes for graphs now; a change is recorded. Returns 0 if a lock was busy.
 */
int counters_graphs(unsigned device, uint64_t level);

void counters_oom(unsigned device);
/* The device refused the request of a library. */
void counters_refused(unsigned device);

/* Records the free memory of DEVICE if it is the thread's current device and a sample is due. A
 * sample that comes too early is owed. */
void counters_sample(unsigned device);

/* Takes an owed sample once it is due. The device's counters must be up to date. */
void counters_sample_owed(unsigned device);

/* For the helper thread: writes a note into the tables, once, if PyTorch's allocator takes memory
 * and reports no blocks. */
void counters_note_unreported(void);

/* Takes a sample, due or not. */
void counters_sample_now(unsigned device);

/* The levels of DEVICE at a moment; free_bytes is MT_UNKNOWN if it is not the thread's current
 * device. */
struct counters_level {
	uint64_t free_bytes, known, nccl;
};
struct counters_level counters_level(unsigned device);

/* Bytes that NCCL took between two moments: its allocations, and the decrease of the device's free
 * memory that has no other owner. */
uint64_t counters_nccl_took(const struct counters_level *before,
			    const struct counters_level *after);

/* NCCL's own allocations, less its frees, on all devices. */
uint64_t counters_nccl(void);

void counters_forget(void);

#endif
