#include "allocator/allocator_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

/* A block with what orders it in its bin: the search reads no blocks. */
struct free_block {
	uint64_t age, address;
	struct allocation *block;
};

struct pool_bin {
	struct free_block *room; /* the blocks are those from `first` on */
	size_t first, count, size;
	struct pool_bin *next; /* of spare bins */
};

#define SIZE_BITS 56
#define SMALLEST_BIN 8

static int64_t key_of(int stream, int64_t size)
{
	return (int64_t)stream << SIZE_BITS | size;
}

/* ---- search ---- */

/* The index of the first key that is not less. The loop has no branch that depends on a key: no
 * processor foresees those. */
static size_t search_keys(const struct pool *p, int64_t key)
{
	const int64_t *at = p->keys;
	size_t count = p->bin_count;

	if (!count)
		return 0;
	while (count > 1) {
		size_t half = count / 2;

		at += at[half - 1] < key ? half : 0;
		count -= half;
	}
	return (size_t)(at - p->keys) + (*at < key);
}

/* The same sizes come again and again: their bins are mostly where they were. */
static size_t first_key(struct pool *p, int64_t key)
{
	size_t *hint = &p->hints[(uint64_t)key * UINT64_C(0x9e3779b97f4a7c15) >> POOL_HINT_SHIFT];

	if (*hint >= p->bin_count || p->keys[*hint] != key)
		*hint = search_keys(p, key);
	return *hint;
}

static int is_before(const struct free_block *b, uint64_t age, uint64_t address)
{
	return (b->age < age) | ((b->age == age) & (b->address < address));
}

/* Most blocks are used and freed again at the beginning of their bin. */
static size_t first_in_bin(const struct pool_bin *bin, uint64_t age, uint64_t address)
{
	const struct free_block *begin = bin->room + bin->first, *at = begin;
	size_t count = bin->count;

	if (!is_before(begin, age, address))
		return 0;
	while (count > 1) {
		size_t half = count / 2;

		at += is_before(&at[half - 1], age, address) ? half : 0;
		count -= half;
	}
	return (size_t)(at - begin) + (size_t)is_before(at, age, address);
}

/* The end of a bin is the beginning of the next one. */
static struct pool_place normal(const struct pool *p, struct pool_place place)
{
	if (place.bin < p->bin_count && place.at == p->bins[place.bin]->count)
		return (struct pool_place){ place.bin + 1, 0 };
	return place;
}

struct pool_place pool_at_least(struct pool *p, int stream, int64_t size)
{
	return (struct pool_place){ first_key(p, key_of(stream, size)), 0 };
}

struct allocation *pool_block(const struct pool *p, struct pool_place place)
{
	const struct pool_bin *bin;

	if (place.bin == p->bin_count)
		return NULL;
	bin = p->bins[place.bin];
	return bin->room[bin->first + place.at].block;
}

/* ---- one block after another ---- */

struct pool_place pool_first(void)
{
	return (struct pool_place){ 0, 0 };
}

struct pool_place pool_end(const struct pool *p)
{
	return (struct pool_place){ p->bin_count, 0 };
}

struct pool_place pool_next(const struct pool *p, struct pool_place place)
{
	place.at++;
	return normal(p, place);
}

int pool_back(const struct pool *p, struct pool_place *place)
{
	if (place->at) {
		place->at--;
		return 1;
	}
	if (!place->bin)
		return 0;
	place->bin--;
	place->at = p->bins[place->bin]->count - 1;
	return 1;
}

/* ---- bins ---- */

static struct pool_bin *add_bin(struct pool *p, size_t i, int64_t key)
{
	struct pool_bin *bin = p->spare;

	if (bin)
		p->spare = bin->next;
	else
		bin = xcalloc(1, sizeof(*bin));
	bin->first = bin->size / 2;
	bin->count = 0;
	p->keys = grow(p->keys, p->bin_count, &p->key_room, sizeof(*p->keys));
	p->bins = grow(p->bins, p->bin_count, &p->bin_room, sizeof(*p->bins));
	memmove(&p->keys[i + 1], &p->keys[i], (p->bin_count - i) * sizeof(*p->keys));
	memmove(&p->bins[i + 1], &p->bins[i], (p->bin_count - i) * sizeof(*p->bins));
	p->keys[i] = key;
	p->bins[i] = bin;
	p->bin_count++;
	return bin;
}

static void drop_bin(struct pool *p, size_t i)
{
	struct pool_bin *bin = p->bins[i];

	bin->next = p->spare;
	p->spare = bin;
	p->bin_count--;
	memmove(&p->keys[i], &p->keys[i + 1], (p->bin_count - i) * sizeof(*p->keys));
	memmove(&p->bins[i], &p->bins[i + 1], (p->bin_count - i) * sizeof(*p->bins));
}

/* Room before the first and after the last block, in a table twice as large. */
static void widen(struct pool_bin *bin)
{
	size_t size = bin->count < SMALLEST_BIN / 2 ? SMALLEST_BIN : 2 * bin->count;
	struct free_block *room = bin->room;
	size_t first = (size - bin->count) / 2;

	if (size > bin->size)
		room = xcalloc(size, sizeof(*room));
	else
		first = (bin->size - bin->count) / 2;
	if (bin->count)
		memmove(room + first, bin->room + bin->first, bin->count * sizeof(*room));
	if (room != bin->room) {
		free(bin->room);
		bin->room = room;
		bin->size = size;
	}
	bin->first = first;
}

/* Moves the fewer blocks of those before and after the place. */
static void insert(struct pool_bin *bin, size_t at, struct free_block b)
{
	int before = at < bin->count - at;
	struct free_block *begin;

	if (before ? !bin->first : bin->first + bin->count == bin->size)
		widen(bin);
	begin = bin->room + bin->first;
	if (before) {
		memmove(begin - 1, begin, at * sizeof(*begin));
		bin->first--;
		begin--;
	} else {
		memmove(begin + at + 1, begin + at, (bin->count - at) * sizeof(*begin));
	}
	begin[at] = b;
	bin->count++;
}

static void take_out(struct pool_bin *bin, size_t at)
{
	struct free_block *begin = bin->room + bin->first;
	size_t after = bin->count - at - 1;

	if (at < after) {
		memmove(begin + 1, begin, at * sizeof(*begin));
		bin->first++;
	} else {
		memmove(begin + at, begin + at + 1, after * sizeof(*begin));
	}
	bin->count--;
}

/* ---- changes ---- */

void pool_add(struct pool *p, struct allocation *b)
{
	struct free_block free_block = { b->segment->age, b->address, b };
	int64_t key = key_of(b->stream, b->size);
	size_t i = first_key(p, key);
	struct pool_bin *bin;

	if (i == p->bin_count || p->keys[i] != key)
		bin = add_bin(p, i, key);
	else
		bin = p->bins[i];
	insert(bin, bin->count ? first_in_bin(bin, free_block.age, free_block.address) : 0,
	       free_block);
	p->count++;
}

struct pool_place pool_remove_at(struct pool *p, struct pool_place place)
{
	struct pool_bin *bin = p->bins[place.bin];

	take_out(bin, place.at);
	p->count--;
	if (!bin->count)
		drop_bin(p, place.bin);
	return normal(p, place);
}

void pool_remove(struct pool *p, const struct allocation *b)
{
	size_t i = first_key(p, key_of(b->stream, b->size));

	pool_remove_at(
		p, (struct pool_place){ i, first_in_bin(p->bins[i], b->segment->age, b->address) });
}

void pool_release(struct pool *p)
{
	while (p->bin_count)
		drop_bin(p, p->bin_count - 1);
	for (struct pool_bin *bin = p->spare, *next; bin; bin = next) {
		next = bin->next;
		free(bin->room);
		free(bin);
	}
	free(p->keys);
	free(p->bins);
}

/* ---- blocks and segments ---- */

static struct allocation *new_block(struct allocator *a, struct allocator_segment *s,
				    uint64_t address, int64_t size)
{
	struct allocation *b = a->spare;

	if (b)
		a->spare = b->after;
	else
		b = slabs_get(&a->blocks, sizeof(*b));
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
