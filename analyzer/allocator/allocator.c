#include "allocator/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "allocator/allocator_blocks.h"
#include "allocator/allocator_expandable.h"
#include "util/util.h"

struct allocator *allocator_new(const struct allocator_settings *s, int64_t device)
{
	struct allocator *a = xcalloc(1, sizeof(*a));

	a->settings = *s;
	if (!a->settings.large_segment_size)
		a->settings.large_segment_size = LARGE_SEGMENT;
	if (!a->settings.max_non_split_rounding)
		a->settings.max_non_split_rounding = LARGE_SEGMENT;
	a->device = device;
	a->next_address = UINT64_C(1) << 40;
	a->rounds = grow(NULL, 0, &a->round_room, sizeof(*a->rounds));
	a->rounds[0] = 0;
	return a;
}

void allocator_release(struct allocator *a)
{
	if (!a)
		return;
	for (struct allocator_segment *s = a->segments, *next; s; s = next) {
		next = s->after;
		free(s);
	}
	slabs_release(&a->blocks);
	for (int large = 0; large < 2; large++)
		pool_release(&a->pools[large]);
	free(a->rounds);
	free(a);
}

/* ---- rounding ---- */

static int64_t round_size(const struct allocator *a, int64_t n)
{
	int64_t power = SMALLEST_BLOCK, step;
	int i = 0, divisions;

	if (n < SMALLEST_BLOCK)
		return SMALLEST_BLOCK;
	while (MIB << (i + 1) <= n && i + 1 < ALLOCATOR_CLASSES)
		i++;
	divisions = a->settings.divisions[i];
	if (divisions < 2 || n <= (int64_t)SMALLEST_BLOCK * divisions)
		return round_up(n, SMALLEST_BLOCK);
	while (power * 2 <= n)
		power *= 2;
	if (power == n)
		return n;
	step = power / divisions;
	return step ? round_up(n, step) : power * 2;
}

static int64_t segment_size(const struct allocator *a, int64_t n)
{
	if (n <= SMALL)
		return SMALL_SEGMENT;
	if (n < a->settings.large_segment_size / 2)
		return a->settings.large_segment_size;
	return round_up(n, ROUND_LARGE);
}

/* ---- segments ---- */

void allocator_reset_peaks(struct allocator *a)
{
	a->totals.peak_allocated = a->totals.allocated;
	a->totals.peak_reserved = a->totals.reserved;
}

void allocator_place_next(struct allocator *a, uint64_t address)
{
	a->placed = address;
}

static void release_whole_segments(struct allocator *a, struct pool *p)
{
	struct pool_place at = pool_first();
	struct allocation *b;

	while ((b = pool_block(p, at)))
		if (!block_is_whole_segment(b) || b->segment->expandable) {
			at = pool_next(p, at);
		} else {
			at = pool_remove_at(p, at);
			segment_free(a, b->segment);
		}
}

/* release_available_cached_blocks: frees free blocks above max_split_size, if that is set: one that
 * holds the request, else the largest until they suffice. Returns 1 if enough was freed. */
static int release_available_cached_blocks(struct allocator *a, int64_t n, int stream)
{
	struct pool *p = &a->pools[1];
	int64_t most = a->settings.max_split_size, key = n > most ? n : most, freed = 0;
	struct pool_place at;
	struct allocation *b;

	if (!most)
		return 0;
	at = pool_at_least(p, stream, key);
	b = pool_block(p, at);
	if (b && b->stream == stream) {
		pool_remove_at(p, at);
		segment_free(a, b->segment);
		return 1;
	}
	while (freed < key && pool_back(p, &at)) {
		b = pool_block(p, at);
		if (b->stream != stream || b->size < most)
			break;
		freed += b->size;
		at = pool_remove_at(p, at);
		segment_free(a, b->segment);
	}
	return freed >= key;
}

void allocator_empty_cache(struct allocator *a)
{
	for (int large = 0; large < 2; large++) {
		release_whole_segments(a, &a->pools[large]);
		expandable_unmap_free(a, &a->pools[large]);
	}
}

/* garbage_collection_threshold: frees cached segments until less than this share is reserved.
 * PyTorch does so only if a memory fraction was set. */
static void garbage_collect_cached_blocks(struct allocator *a)
{
	struct pool *p = &a->pools[1];
	double limit = a->settings.garbage_collection_threshold * a->settings.memory_fraction *
		       (double)a->device;
	struct pool_place at;

	if (limit <= 0)
		return;
	at = pool_end(p);
	while ((double)a->totals.reserved > limit && pool_back(p, &at)) {
		struct allocation *b = pool_block(p, at);

		if (block_is_whole_segment(b)) {
			at = pool_remove_at(p, at);
			segment_free(a, b->segment);
		}
	}
}

static struct allocation *alloc_block(struct allocator *a, int64_t n, int stream)
{
	int64_t size = segment_size(a, n);
	int large = n > SMALL;

	garbage_collect_cached_blocks(a);
	if (!allocator_reserve(a, size)) {
		int fits =
			release_available_cached_blocks(a, n, stream) && allocator_reserve(a, size);

		if (!fits) {
			allocator_empty_cache(a);
			a->totals.retries++;
			if (!allocator_reserve(a, size))
				return NULL;
		}
	}
	return segment_new(a, size, large, stream, size)->first;
}

static struct allocation *alloc_expandable(struct allocator *a, int64_t n, int stream)
{
	struct allocation *b = expandable_alloc(a, n, stream);

	if (b)
		return b;
	allocator_empty_cache(a);
	a->totals.retries++;
	return expandable_alloc(a, n, stream);
}

/* ---- blocks ---- */

/* The block's size with the unmapped block after it. */
static int64_t expandable_size(const struct allocation *b)
{
	return b->size + (b->after && !b->after->mapped ? b->after->size : 0);
}

/* An expandable block counts with its possible size, so that the one with the least room to grow is
 * used. */
static struct pool_place least_expandable(const struct pool *p, struct pool_place at)
{
	struct allocation *b = pool_block(p, at), *after;
	struct pool_place next;

	while (b->segment->expandable) {
		next = pool_next(p, at);
		after = pool_block(p, next);
		if (!after || after->stream != b->stream ||
		    expandable_size(after) >= expandable_size(b))
			break;
		at = next;
		b = after;
	}
	return at;
}

static struct allocation *get_free_block(struct allocator *a, int64_t n, int stream)
{
	struct pool *p = &a->pools[n > SMALL];
	int64_t most = a->settings.max_split_size;
	struct pool_place at = pool_at_least(p, stream, n);
	struct allocation *b = pool_block(p, at);

	if (!b || b->stream != stream)
		return NULL;
	if (a->settings.expandable_segments) {
		at = least_expandable(p, at);
		b = pool_block(p, at);
	}
	if (most && n < most && b->size >= most)
		return NULL;
	if (most && n >= most && b->size >= n + a->settings.max_non_split_rounding)
		return NULL;
	pool_remove_at(p, at);
	return b;
}

static int should_split(const struct allocator *a, const struct allocation *b, int64_t n)
{
	int64_t rest = b->size - n;

	if (!b->segment->large || a->settings.expandable_segments)
		return rest >= SMALLEST_BLOCK;
	return (!a->settings.max_split_size || n < a->settings.max_split_size) && rest > SMALL;
}

/* ---- rounds ---- */

#define ODD_OF_TURNS UINT64_C(0x9e3779b97f4a7c15)
#define ODD_OF_SIZES UINT64_C(0xc2b2ae3d27d4eb4f)

/* Spreads the bits of a number over all others: two rounds of a multiplication and a shift. */
static uint64_t mixed(uint64_t x)
{
	for (int i = 0; i < 2; i++)
		x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return x ^ x >> 32;
}

static void add_mark(struct allocator *a, struct allocation *b)
{
	b->round = (unsigned)a->round;
	b->mark = mixed(b->address + ODD_OF_TURNS * a->turn++ + ODD_OF_SIZES * (uint64_t)b->size);
	a->marks += b->mark;
	a->rounds[b->round] += b->mark;
}

void allocator_begin_round(struct allocator *a)
{
	a->rounds = grow(a->rounds, ++a->round, &a->round_room, sizeof(*a->rounds));
	a->rounds[a->round] = 0;
	a->turn = 0;
}

uint64_t allocator_layout(const struct allocator *a, size_t window)
{
	uint64_t layout = mixed(a->marks + mixed((uint64_t)a->totals.reserved));

	for (size_t age = 0; age < window && age <= a->round; age++)
		layout += mixed(a->rounds[a->round - age] + age);
	return layout;
}

struct allocation *allocator_malloc(struct allocator *a, int64_t requested, int stream)
{
	int64_t n = round_size(a, requested);
	struct allocation *b = get_free_block(a, n, stream);

	if (!b)
		b = a->settings.expandable_segments ? alloc_expandable(a, n, stream)
						    : alloc_block(a, n, stream);
	if (!b)
		return NULL;
	if (should_split(a, b, n))
		pool_add(&a->pools[b->segment->large], block_split(a, b, n));
	b->in_use = 1;
	add_mark(a, b);
	b->requested = requested;
	a->totals.requested += requested;
	a->totals.allocated += b->size;
	if (a->totals.allocated > a->totals.peak_allocated)
		a->totals.peak_allocated = a->totals.allocated;
	return b;
}

void allocator_free_later(struct allocator *a, struct allocation *b)
{
	a->totals.allocated -= b->size;
	a->totals.requested -= b->requested;
}

void allocator_free_now(struct allocator *a, struct allocation *b)
{
	b->in_use = 0;
	a->marks -= b->mark;
	a->rounds[b->round] -= b->mark;
	b = block_merge(a, b, b->before);
	b = block_merge(a, b, b->after);
	pool_add(&a->pools[b->segment->large], b);
}

void allocator_free(struct allocator *a, struct allocation *b)
{
	allocator_free_later(a, b);
	allocator_free_now(a, b);
}

int64_t allocation_size(const struct allocation *block)
{
	return block->size;
}

uint64_t allocation_address(const struct allocation *block)
{
	return block->address;
}

const struct allocator_totals *allocator_totals(const struct allocator *a)
{
	return &a->totals;
}
