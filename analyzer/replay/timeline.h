/* Curves in a fixed number of bins. A bin is 2^shift ns long; bins merge in pairs when the time
 * goes beyond the last one. */
#ifndef MEMTRACE_TIMELINE_H
#define MEMTRACE_TIMELINE_H

#include "util/util.h"

#define TIMELINE_BINS 512

enum curve { CURVE_ALLOCATED, CURVE_RESERVED, CURVE_DEVICE, CURVES };

struct bin {
	bytes floor, peak, last; /* the lowest, the highest and the last level */
};

struct timeline {
	size_t used;     /* the last bin is the current one */
	struct bin *now; /* the current bin's curves; NULL: there is no bin */
	uint64_t end_ns; /* of the current bin; 0: there is no bin */
	unsigned shift;
	unsigned curves;
	struct bin bins[]; /* TIMELINE_BINS times `curves` */
};

/* The caller frees it. */
struct timeline *timeline_new(unsigned curves);

/* Is `time` beyond the current bin? Then timeline_advance() must be called before the levels
 * change. */
static inline int timeline_is_due(const struct timeline *t, uint64_t time)
{
	return time >= t->end_ns;
}

/* Makes the bin of `time` the current one. `levels`: the level of each curve until then. */
void timeline_advance(struct timeline *t, uint64_t time, const bytes *levels);

/* Records a new level of a curve, in the current bin. */
static inline void timeline_record(struct timeline *t, unsigned curve, bytes level)
{
	struct bin *b = &t->now[curve];

	if (level > b->peak)
		b->peak = level;
	if (level < b->floor)
		b->floor = level;
	b->last = level;
}

static inline bytes timeline_peak(const struct timeline *t, size_t bin, unsigned curve)
{
	return t->bins[bin * t->curves + curve].peak;
}

#endif
