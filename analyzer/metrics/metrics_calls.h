/* Two calls of a model in one forward pass, from different lines: does the later one keep a graph,
 * as the earlier one does? */
#ifndef MEMTRACE_METRICS_CALLS_H
#define MEMTRACE_METRICS_CALLS_H

#include "metrics/metrics_pass.h"

/* `p`: the passes of the moment. Fills in again_kept and again_freed of d->m. */
void metrics_compare_calls(const struct device_pass *d, const struct tables *t,
			   const struct live_passes *p);

#endif
