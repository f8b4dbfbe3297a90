/* The running counters of each device in the header, and the samples of device memory that no call
 * shows. */
#ifndef PRELOAD_ACCOUNT_H
#define PRELOAD_ACCOUNT_H

#include <memtrace/trace.h>
#include <stdint.h>

/*
 * PyTorch's allocator reported BYTES (signed); its totals are now ALLOCATED and RESERVED. Called
 * under its lock. Returns 1 when the allocator holds more, or less, than at its last report.
 */
int account_block(unsigned device, int64_t bytes, uint64_t allocated, uint64_t reserved,
		  uint64_t *allocated_peak);

/* The record of a new `allocated_peak`. */
void account_peak_at(unsigned device, uint64_t sequence);

/*
 * BYTES (signed) of device memory came or went by a CUDA call, made by PyTorch's allocator or by
 * anyone else; HELD is what that changes in what the device gave (0 for pool memory: see
 * account_pool).
 */
void account_device(unsigned device, int64_t bytes, int64_t held, int by_allocator);

/* The stream-ordered pool of DEVICE holds RESERVED bytes now: recorded when that is news. */
void account_pool(unsigned device, uint64_t reserved);

void account_oom(unsigned device);

/* Reads the device's free memory and records it, where it is the thread's current device and a
 * sample is due. */
void account_sample(unsigned device);

void account_forget(void);

#endif
