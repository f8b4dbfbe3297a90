/*
 * The events of a device as a list of spans. All events of a span are of one activity. The first
 * pass of the replay writes the list; steps.c divides it into steps and phases afterwards, because
 * later spans decide what earlier ones were.
 */
#ifndef MEMTRACE_SPANS_H
#define MEMTRACE_SPANS_H

#include <stddef.h>

#include "attribution/activity.h"
#include "attribution/phase.h"
#include "util/util.h"

#define MAX_SPANS (1u << 20) /* events behind the last one have no phase */

struct span {
	uint64_t start_ns;
	uint32_t caller; /* caller_hash of the stack: calls of the model from one line are alike */
	uint32_t stack;  /* of the first allocation that has one */
	uint32_t allocs, frees;
	bytes floor, peak;      /* lowest and highest level of `allocated` */
	bytes reserved, device; /* levels at its end */
	uint32_t step;          /* from 1; 0: not known */
	uint8_t activity, phase;
	uint8_t next; /* the next activity other than MAIN and ZERO_GRAD */
};

struct spans {
	struct span *list;
	size_t count, room;
	int has_backward;
};

void spans_release(struct spans *s);

/* Begins a new span and returns it; the last one if there are MAX_SPANS. */
struct span *spans_begin(struct spans *s, uint64_t time_ns, enum activity a, uint32_t caller,
			 bytes level);

/* Adds an event of the tensor layer, after which `level` bytes are allocated. */
static inline void spans_add(struct spans *s, uint64_t time_ns, enum activity a, uint32_t caller,
			     uint32_t stack, int is_alloc, bytes level)
{
	struct span *now = s->count ? &s->list[s->count - 1] : NULL;

	if (!now || (a != ACTIVITY_UNKNOWN && (a != now->activity || caller != now->caller ||
					       (a == ACTIVITY_MAIN && is_alloc && !now->allocs))))
		now = spans_begin(s, time_ns, a, caller, level);
	if (is_alloc && !now->allocs && a != ACTIVITY_UNKNOWN)
		now->stack = stack;
	now->allocs += (uint32_t)is_alloc;
	now->frees += !is_alloc;
	now->floor = level < now->floor ? level : now->floor;
	now->peak = level > now->peak ? level : now->peak;
}

/* The span of a time, NULL before the first one. */
const struct span *spans_at(const struct spans *s, uint64_t time_ns);

#endif
