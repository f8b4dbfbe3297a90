/*
 * A device's events as a list of spans, each of one activity. It is written in the first pass; steps.c reads it as steps and phases once
 * all of it is there, so that what comes later can say what was before.
 */
#ifndef MEMTRACE_SPANS_H
#define MEMTRACE_SPANS_H

#include <stddef.h>

#include "attribution/activity.h"
#include "attribution/phase.h"
#include "util/util.h"

#define SPANS_MOST (1u << 20) /* what is behind them has no phase */

struct span {
	uint64_t start_ns;
	uint32_t caller; /* of the model: its calls of one stack */
	uint32_t stack;  /* of the first allocation with a stack */
	uint32_t allocs, frees;
	bytes least, most;      /* allocated */
	bytes reserved, device; /* at its end */
	uint32_t step;          /* 0 unknown */
	uint8_t activity, phase;
	uint8_t next; /* the next activity that says what the job's own code does */
};

struct spans {
	struct span *list;
	size_t count, room;
	int has_backward;
};

void spans_release(struct spans *s);

/* A new span. */
struct span *spans_begin(struct spans *s, uint64_t time_ns, enum activity a, uint32_t caller,
			 bytes level);

/* Takes an event of the tensor layer, after which `level` bytes are allocated. */
static inline void spans_take(struct spans *s, uint64_t time_ns, enum activity a, uint32_t caller,
			      uint32_t stack, int is_alloc, bytes level)
{
	struct span *now = s->count ? &s->list[s->count - 1] : NULL;

	if (!now || (a != ACTIVITY_UNKNOWN &&
		     (a != now->activity || caller != now->caller ||
		      (a == ACTIVITY_MAIN && is_alloc && !now->allocs))))
		now = spans_begin(s, time_ns, a, caller, level);
	if (is_alloc && !now->allocs && a != ACTIVITY_UNKNOWN)
		now->stack = stack;
	now->allocs += (uint32_t)is_alloc;
	now->frees += !is_alloc;
	now->least = level < now->least ? level : now->least;
	now->most = level > now->most ? level : now->most;
}

/* The span of a time, NULL if there is none. */
const struct span *spans_at(const struct spans *s, uint64_t time_ns);

#endif
