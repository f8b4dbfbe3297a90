/* A curve in a fixed number of bins, whatever its length: a bin is 2^shift ns, and bins merge in
 * pairs when time goes on. */
#ifndef MEMTRACE_TIMELINE_H
#define MEMTRACE_TIMELINE_H

#include "util.h"

#define TIMELINE_BINS 512

enum curve { CURVE_ALLOCATED, CURVE_RESERVED, CURVE_DEVICE, CURVES };

struct bin {
	bytes least[CURVES], most[CURVES], last[CURVES];
};

struct timeline {
	struct bin bins[TIMELINE_BINS];
	size_t used; /* the last bin is the current one */
	unsigned shift;
};

/* Makes the bin of `time` the current one, with the levels that held until then. */
void timeline_advance(struct timeline *t, uint64_t time, const bytes levels[CURVES]);

static inline void timeline_take(struct timeline *t, uint64_t time, const bytes levels[CURVES],
				 enum curve c, bytes level)
{
	struct bin *b;

	if (__builtin_expect(!t->used || time >> t->shift >= t->used, 0))
		timeline_advance(t, time, levels);
	b = &t->bins[t->used - 1];
	if (level > b->most[c])
		b->most[c] = level;
	if (level < b->least[c])
		b->least[c] = level;
	b->last[c] = level;
}

#endif
