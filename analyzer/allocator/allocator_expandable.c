/* Expandable segments: each stream has one for each pool; its pages are mapped and unmapped. */
#include "allocator/allocator_expandable.h"

#include <stdlib.h>

#include "util/util.h"

#define ADDRESS_SPACE \
	(INT64_C(1) << 42) /* addresses of a segment; more than the memory of any device */

static int is_free(const struct allocation *b)
{
	return b && b->mapped && !b->in_use;
}

static int64_t page_of(const struct allocator *a, const struct allocator_segment *s)
{
	return s->large ? a->settings.large_segment_size : SMALL_SEGMENT;
}

/* Maps the pages of `size` bytes at the beginning of `b`. NULL: out of memory. */
static struct allocation *map(struct allocator *a, struct allocation *b, int64_t size)
{
	int64_t mapped = round_up(size, page_of(a, b->segment));

	if (!allocator_reserve(a, mapped))
		return NULL;
	if (mapped < b->size)
		block_split(a, b, mapped);
	b->mapped = 1;
	b->segment->size += mapped;
	b = block_merge(a, b, b->before);
	b = block_merge(a, b, b->after);
	pool_add(&a->pools[b->segment->large], b);
	return b;
}

/* Returns the whole pages of the free block `b` to the device. */
static void unmap(struct allocator *a, struct allocation *b)
{
	struct allocator_segment *s = b->segment;
	int64_t page = page_of(a, s), at = (int64_t)(b->address - s->first->address),
		first = round_up(at, page), last = (at + b->size) / page * page;

	if (first >= last)
		return;
	pool_remove(&a->pools[s->large], b);
	if (first > at) {
		struct allocation *kept = b;

		b = block_split(a, b, first - at);
		pool_add(&a->pools[s->large], kept);
	}
	if (last - first < b->size)
		pool_add(&a->pools[s->large], block_split(a, b, last - first));
	b->mapped = 0;
	s->size -= last - first;
	a->totals.reserved -= last - first;
	b = block_merge(a, b, b->before);
	b = block_merge(a, b, b->after);
	if (block_is_whole_segment(b))
		segment_free(a, s);
}

void expandable_unmap_free(struct allocator *a, struct pool *p)
{
	struct allocation **list = xcalloc(p->count + 1, sizeof(*list));
	struct pool_place at = pool_first();
	struct allocation *b;
	size_t count = 0;

	for (; (b = pool_block(p, at)); at = pool_next(p, at))
		if (b->segment->expandable)
			list[count++] = b;
	for (size_t i = 0; i < count; i++)
		unmap(a, list[i]);
	free(list);
}

/* The first block from which n bytes are free or unmapped before a block in use. */
static struct allocation *room_for(struct allocator *a, int64_t n, int large, int stream)
{
	struct allocator_segment *s;

	for (s = a->segments; s; s = s->after)
		if (s->expandable && s->large == large && s->stream == stream)
			for (struct allocation *b = s->first; b; b = b->after) {
				struct allocation *c = is_free(b->before) ? b->before : b;
				int64_t have = 0;

				if (b->mapped)
					continue;
				for (const struct allocation *x = c; x && !x->in_use && have < n;
				     x = x->after)
					have += x->size;
				if (have >= n)
					return c;
			}
	s = segment_new(a, ADDRESS_SPACE, large, stream, ADDRESS_SPACE);
	s->expandable = 1;
	s->size = 0;
	s->first->mapped = 0;
	return s->first;
}

struct allocation *expandable_alloc(struct allocator *a, int64_t n, int stream)
{
	struct allocation *b = room_for(a, n, n > SMALL, stream);

	if (!b->mapped)
		b = map(a, b, smaller_of(n, b->size));
	while (b && b->size < n)
		b = map(a, b->after, smaller_of(n - b->size, b->after->size));
	if (b)
		pool_remove(&a->pools[n > SMALL], b);
	return b;
}
