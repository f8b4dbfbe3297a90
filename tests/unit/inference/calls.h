/* A job that only calls its model: its line 10 makes a batch, the model has four lines. */
#ifndef MEMTRACE_TEST_CALLS_H
#define MEMTRACE_TEST_CALLS_H

#include "fixture.h"

#include "attribution/attribution.h"
#include "inference/live_inference.h"
#include "util/util.h"

#define KIB (INT64_C(1) << 10)
#define BLOCKS 4096

enum { BATCH = 1, FIRST, LAYER, LAYER_OUT, KEYS, HEAD, STACKS };

struct scene {
	struct stack_info info[STACKS];
	struct stack stacks[STACKS];
	struct tables tables;
	struct span span_list[64];
	struct spans spans;
	struct mt_record live[BLOCKS];
	size_t live_count;
	struct history *history;
	uint64_t time;
};

static inline void make(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	for (uint32_t i = 1; i < STACKS; i++)
		s->info[i].flags = STACK_FRAMES | (i == BATCH ? 0 : STACK_MODULE);
	s->tables.stack_info = s->info;
	s->tables.stacks = s->stacks;
	s->tables.stack_count = STACKS;
	s->spans.list = s->span_list;
	s->history = history_new(STACKS);
}

static inline void span(struct scene *s, enum activity a, uint32_t allocs, uint32_t frees)
{
	s->span_list[s->spans.count++] = (struct span){
		.start_ns = s->time, .activity = (uint8_t)a, .allocs = allocs, .frees = frees
	};
	s->spans.activities |= 1u << a;
}

/* Allocates a block, and returns its index among the live ones. */
static inline size_t born(struct scene *s, uint32_t stack, bytes size)
{
	s->live[s->live_count] = (struct mt_record){ .time_ns = ++s->time,
						     .kind = MT_TENSOR_ALLOC,
						     .address = s->time,
						     .stack = stack,
						     .bytes = size };
	history_add(s->history, &s->live[s->live_count]);
	return s->live_count++;
}

static inline void dies(struct scene *s, size_t at)
{
	history_take(s->history, &s->live[at]);
	s->live[at].kind = 0;
}

static inline void transient(struct scene *s, uint32_t stack, bytes size)
{
	dies(s, born(s, stack, size));
}

/* The blocks that are live now, as the classification leaves them. */
static inline struct lifetimes live_of(struct scene *s)
{
	struct lifetimes l = { 0 };

	for (size_t i = 0; i < s->live_count; i++)
		if (s->live[i].kind)
			lifetimes_add(&l, &s->live[i]);
	for (size_t i = 0; i < l.count; i++)
		l.list[i].category = CATEGORY_TEMPORARIES;
	inference_find_categories(&l, s->history, &s->spans, &s->tables);
	return l;
}

static inline struct live_inference found(struct scene *s, bytes *cache)
{
	struct lifetimes l = live_of(s);
	struct live_inference r = inference_live(&l, s->history, s->history, &s->spans, &s->tables);

	*cache = 0;
	for (size_t i = 0; i < l.count; i++)
		*cache += l.list[i].category == CATEGORY_KV_CACHE ? l.list[i].alloc.bytes : 0;
	lifetimes_release(&l);
	history_free(s->history);
	return r;
}

#define LAYERS 4

/* A call under no_grad: each block is freed before the next one of its stack is made. */
static inline void call(struct scene *s)
{
	transient(s, FIRST, 100 * KIB);
	for (int i = 0; i < LAYERS; i++) {
		transient(s, LAYER, 400 * KIB);
		transient(s, LAYER_OUT, 100 * KIB);
	}
}

#endif
