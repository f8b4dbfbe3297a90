/* What the files of the caching allocator's model share. */
#ifndef MODEL_ALLOCATOR_PARTS_H
#define MODEL_ALLOCATOR_PARTS_H

#include "torch/allocator.h"

#define MIB (INT64_C(1) << 20)
#define SMALL (1 * MIB)         /* kSmallSize: the most that the small pool serves */
#define SMALL_SEGMENT (2 * MIB) /* kSmallBuffer */
#define LARGE_SEGMENT (20 * MIB)
#define ROUND_LARGE (2 * MIB) /* kRoundLarge */

struct allocation {
	int64_t size, requested;
	uint64_t address;
	/* neighbours in the segment */
	struct allocation *before, *after;
	struct allocator_segment *segment;
	int stream, in_use, mapped;
};

struct allocator_segment {
	struct allocation *first;
	int64_t size;
	int large, stream, expandable;
	uint64_t age; /* how many were made before */
	struct allocator_segment *before, *after;
};

/* Free blocks of one pool in PyTorch's order: stream, size, age of the segment (not in old
 * versions), address. */
struct pool {
	struct allocation **blocks;
	size_t count, room;
};

struct allocator {
	struct allocator_settings settings;
	struct allocator_totals totals;
	int64_t device;
	uint64_t ages, next_address,
		placed; /* placed: the driver's choice for the next segment, 0 none */
	struct pool pools[2];
	struct allocator_segment *segments;
	struct allocation *spare;
};

void pool_add(struct pool *p, struct allocation *b);
void pool_remove(struct pool *p, const struct allocation *b);
int reserve(struct allocator *a, int64_t size);
struct allocator_segment *new_segment(struct allocator *a, int64_t size, int large, int stream,
				      int64_t room);
void free_segment(struct allocator *a, struct allocator_segment *s);
int is_whole(const struct allocation *b);
struct allocation *cut(struct allocator *a, struct allocation *b, int64_t size);
struct allocation *merge(struct allocator *a, struct allocation *b, struct allocation *with);
/* Whole pages of free blocks go back to the device. */
void unmap_free(struct allocator *a, struct pool *p);
/* NULL: out of memory. */
struct allocation *take_expandable(struct allocator *a, int64_t n, int stream);

#endif
