/* The metrics of the moment. */
#ifndef MEMTRACE_METRICS_MOMENT_H
#define MEMTRACE_METRICS_MOMENT_H

#include "metrics/metrics_pass.h"

/* Called by the pass when it reaches the moment of a device. */
void metrics_at_moment(const struct metrics_pass *p, unsigned device);

#endif
