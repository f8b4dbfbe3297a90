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
#define MAX_OWN 16           /* the job's own code rarely has so many temporaries at once */

struct span {
	uint64_t start_ns;
	uint32_t caller; /* caller_hash of the stack: calls of the model from one line are alike,
			  * and so are the optimizer's steps */
	uint32_t stack;  /* of the first allocation that has one */
	uint32_t allocs, frees;
	bytes floor, peak;      /* lowest and highest level of `allocated` */
	bytes reserved, device; /* levels at its end */
	/* From 1; 0: not known. Before steps_number(), the number of the job's mark that a step
	 * begins here; 0: none. */
	uint32_t step;
	uint8_t activity, phase;
	uint8_t next; /* the next activity other than MAIN and ZERO_GRAD */
	/* The job's own code freed within the span all that it allocated there. */
	uint8_t is_closed : 1;
	uint8_t leads : 1; /* evaluation with which a step begins (evaluation.h) */
	/* The last request failed: what is freed next unwinds the call, and is not counted. */
	uint8_t failed : 1;
};

/* A cache line: a long trace has a million of them. */
_Static_assert(sizeof(struct span) == 64, "a span is 64 bytes");

struct spans {
	struct span *list;
	size_t count, room;
	unsigned activities; /* of the list: bits 1 << enum activity */
	int is_marked;       /* some span has a mark */
	int ended_badly;     /* the process is known to have ended with a status above 0 */
	/* Blocks that the last span allocated and that are live, if it is of the job's own code. */
	uint64_t own[MAX_OWN];
	unsigned own_count; /* MAX_OWN: not known */
	uint32_t step_mark; /* of the next span; 0: none */
};

/* The step that a span is a part of; 0: none, as of the job's setup, which has the number of the
 * step that follows. */
static inline uint32_t span_step(const struct span *s)
{
	return s->phase == PHASE_SETUP ? 0 : s->step;
}

/* Has some span this activity? A list of a million spans is not read to learn that it has none. */
static inline int spans_have(const struct spans *s, enum activity a)
{
	return s->activities >> a & 1;
}

void spans_release(struct spans *s);

/* Begins a new span and returns it; the last one if there are MAX_SPANS. */
struct span *spans_begin(struct spans *s, uint64_t time_ns, enum activity a, uint32_t caller,
			 bytes level);

/* Notes the blocks of the job's own code. Returns whether a new span begins with this event: all
 * that the last one allocated is freed. */
int spans_note_own(struct spans *s, uint64_t address, int is_alloc);

/* An event of the tensor layer, after which `level` bytes are allocated. */
struct span_event {
	uint64_t time_ns, address;
	bytes level;
	uint32_t caller, stack;
	enum activity activity;
	int is_alloc;
};

__attribute__((always_inline)) static inline void spans_add(struct spans *s,
							    const struct span_event *e)
{
	struct span *now = s->count ? &s->list[s->count - 1] : NULL;
	enum activity a = e->activity;

	if (!now || s->step_mark ||
	    (a != ACTIVITY_UNKNOWN && (a != now->activity || e->caller != now->caller ||
				       (a == ACTIVITY_MAIN && e->is_alloc && !now->allocs))))
		now = spans_begin(s, e->time_ns, a, e->caller, e->level);
	if (a == ACTIVITY_MAIN && spans_have(s, ACTIVITY_BACKWARD) &&
	    spans_note_own(s, e->address, e->is_alloc)) {
		now = spans_begin(s, e->time_ns, a, e->caller, e->level);
		spans_note_own(s, e->address, e->is_alloc);
	}
	if (e->is_alloc && !now->allocs && a != ACTIVITY_UNKNOWN)
		now->stack = e->stack;
	if (e->is_alloc) {
		now->allocs++;
		now->failed = 0;
		now->peak = e->level > now->peak ? e->level : now->peak;
	} else {
		now->frees += !now->failed;
		now->floor = e->level < now->floor ? e->level : now->floor;
	}
}

/* The span of a time, NULL before the first one. */
const struct span *spans_at(const struct spans *s, uint64_t time_ns);

/* The backward passes that are over at a time. `at` goes over the spans, for rising times. */
struct backwards {
	const struct spans *spans;
	size_t at;
	uint32_t count; /* that have begun */
};

/* Blocks that a backward pass recomputes belong to the forward pass before it. */
uint32_t backwards_over(struct backwards *b, uint64_t time_ns);

#endif
