/* The peaks of a group of ranks by step. Each step is computed once, however many ranks are
 * compared there. */
#ifndef MEMTRACE_STEP_SPREADS_H
#define MEMTRACE_STEP_SPREADS_H

#include "report/rank_groups.h"

/* The highest peaks up to a step. */
struct spread_until {
	uint32_t step;
	size_t known; /* ranks of which it is known */
	bytes median, deviation;
};

struct step_spreads;
struct step_spreads *step_spreads_new(const struct report *r, const struct rank_group *g);
void step_spreads_free(struct step_spreads *s);

/* 0: the rank has no steps. */
uint32_t rank_last_step(const struct rank *r);
/* The peak up to a step: a rank that died early is compared with the others up to the same step.
 * UNKNOWN_BYTES: steps before it were left out, or the first one came after it. */
bytes rank_peak_until(const struct rank *r, uint32_t step);

/* Is valid until the next call. */
const struct spread_until *step_spreads_until(struct step_spreads *s, uint32_t step);
/* The median of the peaks in a step; 0: no rank of the group has the step. */
int step_spreads_in(struct step_spreads *s, uint32_t step, bytes *median);

#endif
