/*
 * Which category each block of a moment is in. Three things tell: when in the job it was born (spans.h), when it died, and what the frames
 * of its stack say (frames.def). A life that the trace does not see the end of is judged by its birth.
 */
#ifndef MEMTRACE_CLASSIFY_H
#define MEMTRACE_CLASSIFY_H

#include "attribution/lifetime.h"
#include "replay/replay.h"

/* Gives each block its category. `end_ns` is the last time that the lives know of: the trace's, or their own moment. */
void classify(struct lives *l, const struct device *d, const struct tables *t, uint64_t end_ns);

#endif
