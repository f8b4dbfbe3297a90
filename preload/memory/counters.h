/* The running counters of each device in the header, and the samples of device memory that no call
 * shows. */
#ifndef PRELOAD_COUNTERS_H
#define PRELOAD_COUNTERS_H

#include <memtrace/trace.h>
#include <stdint.h>

#include "memory/modules.h"

/*
 * PyTorch's allocator reported BYTES (signed); its totals are now ALLOCATED and RESERVED. Called
 * under its lock. Returns 1 when the allocator holds more, or less, than at its last report, and
 * sets *NEW_PEAK when never so much was allocated.
 */
int counters_block(unsigned device, int64_t bytes, uint64_t allocated, uint64_t reserved,
		   int *new_peak);

/* Does PyTorch's allocator report its blocks on DEVICE? Else its CUDA calls stand for them. */
int counters_reports(unsigned device);

/* The record of a new `allocated_peak`. */
void counters_peak_at(unsigned device, uint64_t sequence);

/*
 * BYTES (signed) of device memory came or went by a CUDA call of BY; FROM_DEVICE is what that
 * changes in what the device gave (0 for pool memory: see counters_pool). Returns 1 when, by the
 * calls that stand for PyTorch's blocks, never so much was allocated.
 */
int counters_device(unsigned device, int64_t bytes, int64_t from_device, const struct module *by);

/* The stream-ordered pools of DEVICE hold LEVEL bytes now, CHANGE more than before: in a pool of
 * PyTorch's allocator or of another. */
void counters_pool(unsigned device, int64_t change, uint64_t level, int by_allocator);

/* DEVICE holds LEVEL bytes for graphs now: recorded when that is news. 0 when a lock was busy. */
int counters_graphs(unsigned device, uint64_t level);

void counters_oom(unsigned device);

/* Reads the device's free memory and records it, where it is the thread's current device and a
 * sample is due; one that is not is owed. */
void counters_sample(unsigned device);

/* Takes an owed sample once it is due. What the device holds must be counted by now. */
void counters_sample_owed(unsigned device);

/* For the helper thread: writes a note into the tables, once, if PyTorch's allocator takes memory
 * and reports no blocks. */
void counters_note_unreported(void);

/* The same, due or not. */
void counters_sample_now(unsigned device);

/* What DEVICE has given at a moment; free_bytes MT_UNKNOWN where it is not the thread's current
 * device. */
struct counters_level {
	uint64_t free_bytes, known, nccl;
};
struct counters_level counters_level(unsigned device);

/* What NCCL took between two moments: its allocations, and whatever else left the device's free
 * memory without being anyone's. */
uint64_t counters_nccl_took(const struct counters_level *before,
			    const struct counters_level *after);

/* NCCL's own allocations, less its frees, on all devices. */
uint64_t counters_nccl(void);

void counters_forget(void);

#endif
