/* The memory that a whole training step needs, in a job that failed before it had completed one. */
#ifndef MEMTRACE_METRICS_NEED_H
#define MEMTRACE_METRICS_NEED_H

#include "metrics/metrics_pass.h"

/* Called by the pass at the moment, after the other metrics of the moment. */
void metrics_find_need(const struct metrics_pass *p, struct device_pass *d);

#endif
