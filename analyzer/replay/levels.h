/* The first pass of the replay: levels, peaks, activities and failures of each device. */
#ifndef MEMTRACE_LEVELS_H
#define MEMTRACE_LEVELS_H

#include "replay/replay.h"

/* The facts that the pass must know before it begins; replay_trace() corrects them. */
struct assumptions {
	int counted_from_runtime[MT_MAX_DEVICES]; /* see struct device */
};

void replay_levels(struct replay *r, const struct trace *t, const struct assumptions *a,
		   const struct replay_options *o);

#endif
