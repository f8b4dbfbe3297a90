/*
 * PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp) as a model: the same pools,
 * rounding, best fit, splitting, merging and retries, without memory. It answers what
 * `memory_allocated` and `memory_reserved` would be. Sizes are bytes. One device.
 */
#ifndef MODEL_ALLOCATOR_H
#define MODEL_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

#define ALLOCATOR_CLASSES 16
/* kMinBlockSize: all blocks are multiples of it, unless the settings round further. */
#define SMALLEST_BLOCK 512

/* PYTORCH_CUDA_ALLOC_CONF. Zero: not set. */
struct allocator_settings {
	int expandable_segments;
	int by_address; /* of blocks alike the lowest is taken, not one of the oldest segment */
	int64_t max_split_size, max_non_split_rounding, large_segment_size;
	/* roundup_power2_divisions for sizes from 2^(20 + i): 0 none */
	int divisions[ALLOCATOR_CLASSES];
	double garbage_collection_threshold, memory_fraction;
};

/* Reads `conf` ("expandable_segments:True,max_split_size_mb:128") as PyTorch `version` (2.15 is
 * 215) does. -1: it would refuse. */
int allocator_configure(struct allocator_settings *s, const char *conf, int version, struct err *e);

struct allocator;
struct allocation; /* a block that is in use */

/* `device`: bytes that segments may take; 0: as many as they like. */
struct allocator *allocator_new(const struct allocator_settings *s, int64_t device);
void allocator_release(struct allocator *a);

/* NULL: out of memory, after all that PyTorch tries. `bytes` > 0. */
struct allocation *allocator_malloc(struct allocator *a, int64_t bytes, int stream);
void allocator_free(struct allocator *a, struct allocation *block);
/* The same in two parts: the block is freed, and other streams that used it have done so. */
void allocator_free_later(struct allocator *a, struct allocation *block);
void allocator_free_now(struct allocator *a, struct allocation *block);
void allocator_empty_cache(struct allocator *a);
/* The driver's choice for the next new segment; without it they lie one behind the other. */
void allocator_place_next(struct allocator *a, uint64_t address);
void allocator_reset_peaks(struct allocator *a);

/* The block's size: what the allocator counts as allocated. */
int64_t allocation_size(const struct allocation *block);
uint64_t allocation_address(const struct allocation *block);

struct allocator_totals {
	int64_t allocated, reserved, requested;
	int64_t peak_allocated, peak_reserved;
	int64_t segments, retries;
};
const struct allocator_totals *allocator_totals(const struct allocator *a);

#endif
