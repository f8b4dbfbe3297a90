/* Whether a pass that steps do not run has a larger batch than they have. */
#ifndef MEMTRACE_METRICS_LARGER_H
#define MEMTRACE_METRICS_LARGER_H

#include "metrics/metrics_pass.h"

/* Finds run_size_ratio. */
void metrics_find_larger(const struct metrics_pass *p, struct device_pass *d);

#endif
