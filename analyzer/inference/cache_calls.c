#include "inference/cache_calls.h"

#include "allocator/allocator.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH 4             /* a call frees blocks of itself and of the three calls before */
#define MAX_EVENTS 2000000  /* of the calls that are repeated: about a tenth of a second */
#define MIN_TURNS 16        /* fewer repeated calls are too coarse */
#define OF_ALLOC UINT32_MAX /* of struct call_event: it is an allocation */
#define CACHE_STAYS 3       /* a third of a cache is live at all times, even if it is copied */
#define NO_BLOCK UINT32_MAX
#define LARGEST_BLOCK (INT64_C(1) << 56) /* of more, a trace of no real device speaks */

/* An allocation, or a free of the block that the call `age` calls before made as its `turn`th. */
struct call_event {
	uint32_t turn, age;
};

/* A block of the job. */
struct job_block {
	struct allocation *place; /* in the allocator's model; NULL: there is none */
	bytes size;
	uint32_t call, turn;
	int is_cache, is_live;
};

struct call_blocks {
	bytes *sizes;
	unsigned char *is_cache;
	size_t count, size_room, cache_room;
};

struct model_call {
	struct call_blocks blocks;
	struct call_event *events;
	size_t count, room;
	bytes low, high, most; /* of the cache; of all live blocks */
};

struct cache_calls {
	struct cache_plan plan;
	struct allocator *allocator; /* NULL: none, or it ran out where the job did not */
	struct job_block *blocks;
	size_t block_count, block_room;
	uint32_t *spare;
	size_t spare_count, spare_room;
	uint32_t seen; /* blocks of the plan's stack */
	uint32_t at;   /* the present call, from 1; 0: none has begun */
	int is_over;
	bytes live, cache;
	struct model_call now, last;
	struct call_blocks early; /* of the first call of the same blocks as the last one */
	uint32_t early_at;
	bytes early_most, first_low;
	/* Over the calls: the number of each, its square, the cache, and the product of both. */
	double calls, sum_at, sum_squares, sum_low, sum_products;
	struct cache_growth growth;
};

struct cache_calls *cache_calls_new(const struct cache_plan *plan)
{
	struct cache_calls *c = xcalloc(1, sizeof(*c));

	struct allocator_settings settings = { 0 };
	struct err e = { 0 };

	c->plan = *plan;
	c->growth.left = -1;
	if (plan->room > 0 && !allocator_configure(&settings, plan->conf, plan->torch_version, &e))
		c->allocator = allocator_new(&settings, plan->room);
	return c;
}

static void call_clear(struct model_call *c)
{
	c->blocks.count = c->count = 0;
	c->low = INT64_MAX;
	c->high = c->most = 0;
}

static void call_release(struct model_call *c)
{
	free(c->blocks.sizes);
	free(c->blocks.is_cache);
	free(c->events);
}

static void note_event(struct model_call *c, uint32_t turn, uint32_t age)
{
	c->events = grow(c->events, c->count, &c->room, sizeof(*c->events));
	c->events[c->count++] = (struct call_event){ turn, age };
}

static void note_block(struct call_blocks *b, bytes size, int is_cache)
{
	b->sizes = grow(b->sizes, b->count, &b->size_room, sizeof(*b->sizes));
	b->is_cache = grow(b->is_cache, b->count, &b->cache_room, sizeof(*b->is_cache));
	b->sizes[b->count] = size;
	b->is_cache[b->count++] = (unsigned char)is_cache;
}

static void note_levels(struct cache_calls *c)
{
	c->now.low = smaller_of(c->now.low, c->cache);
	c->now.high = larger_of(c->now.high, c->cache);
	c->now.most = larger_of(c->now.most, c->live);
}

static int are_alike(const struct call_blocks *a, const struct call_blocks *b)
{
	return a->count == b->count && !memcmp(a->is_cache, b->is_cache, a->count);
}

/* The present call is over, and the last one so far. The first one may fill the cache. */
static void end_call(struct cache_calls *c)
{
	struct model_call was = c->last;

	if (c->at == 2)
		c->first_low = c->now.low;
	c->calls++;
	c->sum_at += c->at;
	c->sum_squares += (double)c->at * c->at;
	c->sum_low += (double)c->now.low;
	c->sum_products += (double)c->at * (double)c->now.low;
	if (c->at == 2 || !are_alike(&c->now.blocks, &c->last.blocks)) {
		c->early.count = 0;
		for (size_t i = 0; i < c->now.blocks.count; i++)
			note_block(&c->early, c->now.blocks.sizes[i], c->now.blocks.is_cache[i]);
		c->early_at = c->at;
		c->early_most = c->now.most;
	}
	c->last = c->now;
	c->now = was;
	call_clear(&c->now);
}

/* The size that a block has `later` calls after the last one, if it grows as it did. */
static bytes size_later(const struct cache_calls *c, size_t turn, int64_t later)
{
	bytes size = c->last.blocks.sizes[turn], risen = size - c->early.sizes[turn];
	int64_t calls = (int64_t)c->at - 1 - c->early_at;
	double grown = (double)size + (double)risen / (double)calls * (double)later;

	if (grown >= (double)LARGEST_BLOCK)
		return LARGEST_BLOCK;
	return grown > SMALLEST_BLOCK ? (bytes)grown : SMALLEST_BLOCK;
}

/* Repeats the last call for the `turn`th time, `later` calls after it. 0: a block does not fit.
 * `ring`: the blocks of the latest turns. */
static int repeat(const struct cache_calls *c, struct allocation **ring[DEPTH], int64_t turn,
		  int64_t later)
{
	struct allocation **now = ring[turn % DEPTH];
	size_t count = c->last.blocks.count;

	memset(now, 0, count * sizeof(*now));
	for (size_t i = 0; i < c->last.count; i++) {
		const struct call_event *e = &c->last.events[i];
		struct allocation **at;

		if (e->age == OF_ALLOC) {
			now[e->turn] =
				allocator_malloc(c->allocator, size_later(c, e->turn, later), 0);
			if (!now[e->turn])
				return 0;
			continue;
		}
		if (e->turn >= count)
			continue;
		at = &ring[(turn + DEPTH - e->age) % DEPTH][e->turn];
		if (*at)
			allocator_free(c->allocator, *at);
		*at = NULL;
	}
	return 1;
}

/* The blocks of the last call and of those before it, which later calls may free. */
static void fill_ring(const struct cache_calls *c, struct allocation **ring[DEPTH])
{
	for (size_t i = 0; i < c->block_count; i++) {
		const struct job_block *b = &c->blocks[i];
		uint32_t age = c->at - 1 - b->call;

		if (b->is_live && b->call && age < DEPTH && b->turn < c->last.blocks.count)
			ring[(DEPTH - age) % DEPTH][b->turn] = b->place;
	}
}

/* How many calls fit, as far as the sum of the live blocks tells; -1: unknown. */
static int64_t fit_by_sum(const struct cache_calls *c)
{
	bytes risen = c->last.most - c->early_most;
	int64_t calls = (int64_t)c->at - 1 - c->early_at;

	if (c->plan.room <= 0 || calls <= 0 || risen < calls)
		return -1;
	return larger_of(c->plan.room - c->last.most, 0) / (risen / calls);
}

/* How many calls fit from now on. If they are too many to repeat each of them, a turn is the last
 * of several calls: the gaps that it meets depend on its sizes much more than on how often they
 * grew. */
static int64_t fit(const struct cache_calls *c)
{
	int64_t by_sum = fit_by_sum(c), turns = 0, most, calls;
	struct allocation **ring[DEPTH];

	if (!c->allocator || by_sum < 0 || !c->last.count || c->last.count > MAX_EVENTS / MIN_TURNS)
		return by_sum;
	most = MAX_EVENTS / (int64_t)c->last.count;
	calls = by_sum / most + 1;
	for (int i = 0; i < DEPTH; i++)
		ring[i] = xcalloc(c->last.blocks.count + 1, sizeof(*ring[i]));
	fill_ring(c, ring);
	while (turns * calls <= by_sum && repeat(c, ring, turns + 1, (turns + 1) * calls))
		turns++;
	for (int i = 0; i < DEPTH; i++)
		free(ring[i]);
	return turns * calls;
}

/* The growth with each call: the slope of the line that is nearest to all calls, since large blocks
 * keep rests of their segments. */
static bytes slope(const struct cache_calls *c)
{
	double spread = c->calls * c->sum_squares - c->sum_at * c->sum_at;

	return spread > 0 ? (bytes)((c->calls * c->sum_products - c->sum_at * c->sum_low) / spread +
				    0.5)
			  : 0;
}

/* The last call of the plan's series begins: what was recorded of it may be the job's end too. */
static void finish(struct cache_calls *c)
{
	const struct series *s = &c->plan.series;
	int64_t left;

	c->is_over = 1;
	if (c->at < 4 || c->last.low < c->last.high / CACHE_STAYS || c->last.low <= c->first_low)
		return;
	c->growth.token = larger_of(slope(c), 0);
	left = fit(c);
	if (left > 0 && s->allocs % s->each == 0)
		left--;
	c->growth.left = left;
}

static void count_calls(struct cache_calls *c)
{
	const struct series *s = &c->plan.series;
	uint32_t block = c->seen++;

	if (block < s->begin || (block - s->begin) % s->each || c->is_over)
		return;
	if (c->at > 1)
		end_call(c);
	else
		call_clear(&c->now);
	c->at++;
	if (c->at > series_calls(s))
		finish(c);
}

static uint32_t new_block(struct cache_calls *c)
{
	if (c->spare_count)
		return c->spare[--c->spare_count];
	c->blocks = grow(c->blocks, c->block_count, &c->block_room, sizeof(*c->blocks));
	return (uint32_t)c->block_count++;
}

uint32_t cache_calls_add(struct cache_calls *c, const struct mt_record *block)
{
	struct job_block *b;
	uint32_t number;

	if (block->stack == c->plan.stack)
		count_calls(c);
	if (c->is_over)
		return NO_BLOCK;
	number = new_block(c);
	b = &c->blocks[number];
	*b = (struct job_block){ .size = block->bytes,
				 .call = c->at,
				 .turn = (uint32_t)c->now.blocks.count,
				 .is_live = 1 };
	b->is_cache = block->stack < c->plan.stack_count && c->plan.is_cache[block->stack];
	if (c->allocator && block->bytes > 0) {
		b->place = allocator_malloc(c->allocator, block->bytes, 0);
		if (!b->place) {
			allocator_release(c->allocator);
			c->allocator = NULL;
		}
	}
	c->live = bytes_add(c->live, b->size);
	c->cache = bytes_add(c->cache, b->is_cache ? b->size : 0);
	if (c->at) {
		note_event(&c->now, b->turn, OF_ALLOC);
		note_block(&c->now.blocks, b->size, b->is_cache);
		note_levels(c);
	}
	return number;
}

void cache_calls_free(struct cache_calls *c, uint32_t block)
{
	struct job_block *b;

	if (c->is_over || block >= c->block_count || !c->blocks[block].is_live)
		return;
	b = &c->blocks[block];
	if (c->allocator && b->place)
		allocator_free(c->allocator, b->place);
	c->live -= b->size;
	c->cache -= b->is_cache ? b->size : 0;
	if (c->at && b->call && c->at - b->call < DEPTH)
		note_event(&c->now, b->turn, c->at - b->call);
	note_levels(c);
	b->is_live = 0;
	c->spare = grow(c->spare, c->spare_count, &c->spare_room, sizeof(*c->spare));
	c->spare[c->spare_count++] = block;
}

struct cache_growth cache_calls_end(struct cache_calls *c)
{
	struct cache_growth growth = c->growth;

	if (c->allocator)
		allocator_release(c->allocator);
	call_release(&c->now);
	call_release(&c->last);
	free(c->early.sizes);
	free(c->early.is_cache);
	free(c->blocks);
	free(c->spare);
	free(c);
	return growth;
}
