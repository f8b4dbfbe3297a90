/* Expandable segments (expandable_segments:True). */
#ifndef MEMTRACE_TORCH_ALLOCATOR_EXPANDABLE_H
#define MEMTRACE_TORCH_ALLOCATOR_EXPANDABLE_H

#include "allocator/allocator_blocks.h"

/* A free block of at least n bytes, removed from its pool; pages are mapped for it as needed. NULL:
 * out of memory. */
struct allocation *expandable_alloc(struct allocator *a, int64_t n, int stream);
/* Returns whole pages of the pool's free blocks to the device. */
void expandable_unmap_free(struct allocator *a, struct pool *p);

#endif
