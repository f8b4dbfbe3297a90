/* The metrics of the steps. */
#ifndef MEMTRACE_METRICS_STEPS_H
#define MEMTRACE_METRICS_STEPS_H

#include "metrics/metrics_pass.h"

/* Called by the pass at the end of the trace. */
void metrics_from_steps(struct device_pass *d);

/* The stack that has the most host memory pinned; MT_NO_STACK: unknown. */
uint32_t metrics_pinned_stack(const struct metrics_pass *p);

#endif
