#include "torch/allocator_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

/* ---- sets of free blocks ---- */

#define SIZE_BITS 56

static int64_t key_of(int stream, int64_t size)
{
	return (int64_t)stream << SIZE_BITS | size;
}

/* Does `a` come before a block of the same key? */
static int is_before(const struct allocation *a, uint64_t age, uint64_t address)
{
	return a->segment->age != age ? a->segment->age < age : a->address < address;
}

/* The index of the first key that is not less. The loop has no branch that depends on a key: no
 * processor foresees those. */
static size_t first_key(const struct pool *p, int64_t key)
{
	const int64_t *at = p->keys;
	size_t count = p->count;

	if (!count)
		return 0;
	while (count > 1) {
		size_t half = count / 2;

		at += at[half - 1] < key ? half : 0;
		count -= half;
	}
	return (size_t)(at - p->keys) + (*at < key);
}

size_t pool_lower_bound(const struct pool *p, int stream, int64_t size, uint64_t age,
			uint64_t address)
{
	int64_t key = key_of(stream, size);
	size_t low = first_key(p, key), high = low;

	if (low < p->count && p->keys[low] == key && is_before(p->blocks[low], age, address))
		high = first_key(p, key + 1);
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (is_before(p->blocks[middle], age, address))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void pool_add(struct pool *p, struct allocation *b)
{
	size_t i = pool_lower_bound(p, b->stream, b->size, b->segment->age, b->address);

	p->blocks = grow(p->blocks, p->count, &p->room, sizeof(*p->blocks));
	p->keys = grow(p->keys, p->count, &p->key_room, sizeof(*p->keys));
	memmove(&p->blocks[i + 1], &p->blocks[i], (p->count - i) * sizeof(*p->blocks));
	memmove(&p->keys[i + 1], &p->keys[i], (p->count - i) * sizeof(*p->keys));
	p->blocks[i] = b;
	p->keys[i] = key_of(b->stream, b->size);
	p->count++;
}

void pool_remove_at(struct pool *p, size_t i)
{
	p->count--;
	memmove(&p->blocks[i], &p->blocks[i + 1], (p->count - i) * sizeof(*p->blocks));
	memmove(&p->keys[i], &p->keys[i + 1], (p->count - i) * sizeof(*p->keys));
}

void pool_remove(struct pool *p, const struct allocation *b)
{
	pool_remove_at(p, pool_lower_bound(p, b->stream, b->size, b->segment->age, b->address));
}

/* ---- blocks and segments ---- */

static struct allocation *new_block(struct allocator *a, struct allocator_segment *s,
				    uint64_t address, int64_t size)
{
	struct allocation *b = a->spare;

	if (b)
		a->spare = b->after;
	else
		b = xcalloc(1, sizeof(*b));
	*b = (struct allocation){
		.size = size, .address = address, .segment = s, .stream = s->stream, .mapped = 1
	};
	return b;
}

static void discard(struct allocator *a, struct allocation *b)
{
	b->after = a->spare;
	a->spare = b;
}

int allocator_reserve(struct allocator *a, int64_t size)
{
	if (a->device && a->totals.reserved + size > a->device)
		return 0;
	a->totals.reserved += size;
	if (a->totals.reserved > a->totals.peak_reserved)
		a->totals.peak_reserved = a->totals.reserved;
	return 1;
}

struct allocator_segment *segment_new(struct allocator *a, int64_t size, int large, int stream,
				      int64_t room)
{
	struct allocator_segment *s = xcalloc(1, sizeof(*s));

	*s = (struct allocator_segment){ .size = size,
					 .large = large,
					 .stream = stream,
					 .age = a->settings.by_address ? 0 : a->ages++ };
	s->after = a->segments;
	if (a->segments)
		a->segments->before = s;
	a->segments = s;
	s->first = new_block(a, s, a->placed ? a->placed : a->next_address, size);
	if (!a->placed)
		a->next_address += (uint64_t)round_up(room, ROUND_LARGE);
	a->placed = 0;
	a->totals.segments++;
	return s;
}

void segment_free(struct allocator *a, struct allocator_segment *s)
{
	a->totals.reserved -= s->size;
	a->totals.segments--;
	if (s->before)
		s->before->after = s->after;
	else
		a->segments = s->after;
	if (s->after)
		s->after->before = s->before;
	discard(a, s->first);
	free(s);
}

int block_is_whole_segment(const struct allocation *b)
{
	return !b->before && !b->after;
}

struct allocation *block_split(struct allocator *a, struct allocation *b, int64_t size)
{
	struct allocation *rest =
		new_block(a, b->segment, b->address + (uint64_t)size, b->size - size);

	rest->mapped = b->mapped;
	rest->before = b;
	rest->after = b->after;
	if (b->after)
		b->after->before = rest;
	b->after = rest;
	b->size = size;
	return rest;
}

struct allocation *block_merge(struct allocator *a, struct allocation *b, struct allocation *with)
{
	struct allocation *first, *second;

	if (!with || with->in_use || with->mapped != b->mapped)
		return b;
	if (with->mapped)
		pool_remove(&a->pools[b->segment->large], with);
	first = with == b->before ? with : b;
	second = with == b->before ? b : with;
	first->size += second->size;
	first->after = second->after;
	if (second->after)
		second->after->before = first;
	discard(a, second);
	return first;
}
