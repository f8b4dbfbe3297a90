/* A model of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp) for one device: the
 * same pools, rounding, best fit, splitting, merging and retries, without memory. Its totals are
 * those of `memory_allocated` and `memory_reserved`. Sizes are bytes. */
#ifndef MEMTRACE_TORCH_ALLOCATOR_H
#define MEMTRACE_TORCH_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include "config/allocator_conf.h"
#include "util/err.h"

/* kMinBlockSize: sizes of blocks are multiples of it, unless the settings round further. */
#define SMALLEST_BLOCK 512

/* PYTORCH_CUDA_ALLOC_CONF. 0: not set. */
struct allocator_settings {
	int expandable_segments;
	int by_address; /* of equal free blocks the one with the lowest address is used, not one in
			   the oldest segment */
	int64_t max_split_size, max_non_split_rounding, large_segment_size;
	/* roundup_power2_divisions; 0: none */
	int divisions[ALLOCATOR_CLASSES];
	double garbage_collection_threshold, memory_fraction;
};

/* Reads `conf` ("expandable_segments:True,max_split_size_mb:128") as PyTorch `version` (215
 * is 2.15) does. -1: an option is not modelled; e says which. */
int allocator_configure(struct allocator_settings *s, const char *conf, int version, struct err *e);

struct allocator;
struct allocation; /* a block */

/* `device`: the most bytes of segments; 0: unlimited. */
struct allocator *allocator_new(const struct allocator_settings *s, int64_t device);
void allocator_release(struct allocator *a);

/* A block for `bytes` > 0. NULL: out of memory, after PyTorch's retries. */
struct allocation *allocator_malloc(struct allocator *a, int64_t bytes, int stream);
void allocator_free(struct allocator *a, struct allocation *block);
/* allocator_free() in two parts: the block is freed, and later the work of other streams that used
 * it is complete. */
void allocator_free_later(struct allocator *a, struct allocation *block);
void allocator_free_now(struct allocator *a, struct allocation *block);
void allocator_empty_cache(struct allocator *a);
/* The address of the next new segment. Without it segments follow one another. */
void allocator_place_next(struct allocator *a, uint64_t address);
void allocator_reset_peaks(struct allocator *a);

/* Begins a round of allocations: a micro-batch of a schedule, say. */
void allocator_begin_round(struct allocator *a);
/* A number that tells apart, as well as 64 bits can, which blocks are in use: their places and
 * sizes, the turn of each allocation in its round, and how many rounds ago that was, if fewer than
 * `window`. */
uint64_t allocator_layout(const struct allocator *a, size_t window);

/* The block's size, which counts as allocated. */
int64_t allocation_size(const struct allocation *block);
uint64_t allocation_address(const struct allocation *block);

struct allocator_totals {
	int64_t allocated, reserved, requested;
	int64_t peak_allocated, peak_reserved;
	int64_t segments, retries;
};
const struct allocator_totals *allocator_totals(const struct allocator *a);

#endif
