/*
 * Steps and phases of a training loop, told from who allocates. No marker is needed: the backward
 * pass runs on PyTorch's autograd threads, optimizers show in the Python stack, the rest is
 * forward.
 *
 * A backward burst completes a step once the optimizer was seen after it; where a trace shows no
 * optimizer at all (say, no Python stacks), each burst does. The next step begins with the first
 * allocation of the main thread, outside of the optimizer, after that. Steps count from 1; 0 is
 * unknown: after a part of the trace that is not there, nobody has counted.
 */
#ifndef MEMTRACE_PHASE_H
#define MEMTRACE_PHASE_H

#include "tables.h"
#include "util.h"

enum phase {
#define PHASE(id, key) PHASE_##id,
#include "phase.def"
#undef PHASE
	PHASES
};

enum part {
#define PART(id, key) PART_##id,
#include "phase.def"
#undef PART
	PARTS
};

const char *phase_name(enum phase p);
const char *part_name(enum part p); /* NULL: none */

/* Is this frame an optimizer's? */
int phase_is_optimizer(struct str function, struct str file);

struct steps {
	uint32_t step;
	unsigned char phase;             /* of the last event */
	unsigned char burst;             /* the backward pass was seen in this step */
	unsigned char complete;          /* so was what ends it */
	unsigned char without_optimizer; /* each burst completes a step */
	uint64_t optimizer_events;
};

static inline void steps_start(struct steps *s, int without_optimizer)
{
	*s = (struct steps){ .step = 1, .without_optimizer = (unsigned char)without_optimizer };
}

static inline void steps_lose_count(struct steps *s)
{
	s->step = 0;
}

/* Takes one event of the tensor layer; the flags are enum thread_flag and enum place_flag. */
static inline void steps_take(struct steps *s, unsigned thread, unsigned place, int is_alloc)
{
	if (thread & THREAD_AUTOGRAD) {
		s->phase = PHASE_BACKWARD;
		s->burst = 1;
		s->complete |= s->without_optimizer;
	} else if (!(thread & THREAD_MAIN)) {
		s->phase = PHASE_FORWARD;
	} else if (place & PLACE_OPTIMIZER) {
		s->phase = PHASE_OPTIMIZER;
		s->optimizer_events++;
		s->complete |= s->burst;
	} else {
		s->phase = PHASE_FORWARD;
		if (is_alloc && s->complete) {
			s->step += s->step != 0;
			s->burst = s->complete = 0;
		}
	}
}

#endif
