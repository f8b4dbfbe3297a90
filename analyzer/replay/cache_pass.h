/* A pass over the trace of a job that only calls its model: how its cache of keys and values grows,
 * also after the moment that is diagnosed, and how many more calls fit. */
#ifndef MEMTRACE_CACHE_PASS_H
#define MEMTRACE_CACHE_PASS_H

#include "replay/replay.h"

/* After the snapshots. `history`: of the whole trace; NULL: the job trains. */
void replay_cache(struct device *d, int device, const struct trace *t, const struct history *h);

#endif
