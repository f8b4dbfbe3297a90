/* Free ranges of addresses; the lowest that fits is taken first. */
#ifndef CUDASIM_EXTENT_H
#define CUDASIM_EXTENT_H

#include "device/common.h"

struct extent {
	uint64_t start, length;
};
struct extents {
	struct extent *list;
	size_t count, capacity;
	uint64_t boundary; /* ranges never join across a multiple of this; 0: they always may */
};
bool extents_take(struct extents *free, uint64_t length, uint64_t alignment, uint64_t *start);
bool extents_take_at(struct extents *free, uint64_t start, uint64_t length);
bool extents_give(struct extents *free, uint64_t start, uint64_t length);

#endif
