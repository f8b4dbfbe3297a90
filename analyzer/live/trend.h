/* Whether the memory of a training job grows from step to step, and when its device will be full.
 */
#ifndef MEMTRACE_LIVE_TREND_H
#define MEMTRACE_LIVE_TREND_H

#include <stddef.h>

#include "util/util.h"

#define TREND_STEPS 64 /* the latest ones count */
/* If 8 values are in random order, all of the later half are above all of the earlier half in one
 * case of 70. */
#define TREND_LEAST 8

struct trend_step {
	uint64_t start_ns;
	bytes floor, peak; /* least and most allocated */
};

struct trend {
	size_t steps;   /* that count: an even number; fewer than TREND_LEAST: nothing is known */
	bytes growth;   /* of the floor, in bytes a step */
	int is_growing; /* every floor of the later half is above every one of the earlier half */
	bytes peak;     /* the highest of the later half */
	double step_s;  /* duration of a step; 0: not known */
};

/* `steps`: complete ones, the latest last. The growth is the difference between the means of both
 * halves, divided by the steps from the one to the other. */
struct trend trend_of(const struct trend_step *steps, size_t count);

/* The steps until the peak of a step reaches `limit` if the growth goes on; -1: it is not growing,
 * or not known. */
int64_t trend_steps_until(const struct trend *t, bytes limit);

#endif
