/* Blocks, segments and pools of the caching allocator's model. Sizes are bytes. */
#ifndef MEMTRACE_TORCH_ALLOCATOR_BLOCKS_H
#define MEMTRACE_TORCH_ALLOCATOR_BLOCKS_H

#include "allocator/allocator.h"
#include "util/util.h"

#define MIB (INT64_C(1) << 20)
#define SMALL (1 * MIB)         /* kSmallSize: the largest request of the small pool */
#define SMALL_SEGMENT (2 * MIB) /* kSmallBuffer */
#define LARGE_SEGMENT (20 * MIB)
#define ROUND_LARGE (2 * MIB) /* kRoundLarge */

struct allocation {
	int64_t size, requested;
	uint64_t address;
	/* the blocks before and after it in the segment */
	struct allocation *before, *after;
	struct allocator_segment *segment;
	int stream, in_use, mapped;
	unsigned round; /* of its allocation */
	uint64_t mark;  /* of its place, its size and its turn in the round */
};

struct allocator_segment {
	struct allocation *first;
	int64_t size;
	int large, stream, expandable;
	uint64_t age; /* number of segments that were made before */
	struct allocator_segment *before, *after;
};

/* The free blocks in PyTorch's order: stream, size, age of the segment (not in old versions),
 * address. A bin has those of one stream and one size, which most blocks share with many others. */
struct pool_bin;

#define POOL_HINT_BITS 6
#define POOL_HINT_SHIFT (64 - POOL_HINT_BITS)

struct pool {
	int64_t *keys;          /* stream and size of each bin, rising */
	struct pool_bin **bins; /* none is empty */
	size_t bin_count, key_room, bin_room;
	size_t count; /* blocks */
	struct pool_bin *spare;
	size_t hints[1 << POOL_HINT_BITS]; /* where a key's bin was, by a hash of the key */
};

/* The place of a block, or the end. */
struct pool_place {
	size_t bin, at;
};

struct allocator {
	struct allocator_settings settings;
	struct allocator_totals totals;
	int64_t device;
	uint64_t ages, next_address,
		placed; /* placed: the given address of the next segment; 0: none */
	struct pool pools[2];
	struct allocator_segment *segments;
	struct slabs blocks; /* all of them, of segments or spare */
	struct allocation *spare;
	uint64_t *rounds; /* of each round: the sum of the marks of its blocks in use */
	size_t round, round_room;
	uint64_t turn;  /* allocations of this round */
	uint64_t marks; /* the sum over all rounds */
};

/* ---- sets of free blocks ---- */

/* The first block of at least `size` bytes of the stream, else of a later one. */
struct pool_place pool_at_least(struct pool *p, int stream, int64_t size);
/* NULL: the end. */
struct allocation *pool_block(const struct pool *p, struct pool_place place);
struct pool_place pool_first(void);
struct pool_place pool_end(const struct pool *p);
struct pool_place pool_next(const struct pool *p, struct pool_place place);
/* Moves to the block before. 0: there is none. */
int pool_back(const struct pool *p, struct pool_place *place);
void pool_add(struct pool *p, struct allocation *b);
/* `b` is in the pool. */
void pool_remove(struct pool *p, const struct allocation *b);
/* Returns the place of the block that followed. */
struct pool_place pool_remove_at(struct pool *p, struct pool_place place);
void pool_release(struct pool *p);

/* ---- segments ---- */

/* Counts `size` bytes as reserved. 0: out of memory. */
int allocator_reserve(struct allocator *a, int64_t size);
/* A segment with one free block, which is in no pool. `room`: addresses that it occupies. */
struct allocator_segment *segment_new(struct allocator *a, int64_t size, int large, int stream,
				      int64_t room);
/* Returns a segment of one block, which is in no pool, to the device. */
void segment_free(struct allocator *a, struct allocator_segment *s);

/* ---- blocks ---- */

int block_is_whole_segment(const struct allocation *b);
/* `b` keeps `size` bytes; returns the rest, a block in no pool. */
struct allocation *block_split(struct allocator *a, struct allocation *b, int64_t size);
/* Merges `b`, which is in no pool, with its neighbour `with` if that is free (or not mapped) as `b`
 * is. Returns the merged block, or b. */
struct allocation *block_merge(struct allocator *a, struct allocation *b, struct allocation *with);

#endif
