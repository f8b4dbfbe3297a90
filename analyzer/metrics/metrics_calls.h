/* Two calls of a model in one forward pass, from different lines: does the later one keep a graph,
 * as the earlier one does? */
#ifndef MEMTRACE_METRICS_CALLS_H
#define MEMTRACE_METRICS_CALLS_H

#include "metrics/metrics_leaks.h"
#include "metrics/metrics_pass.h"

/* `p`: the passes of the moment. Fills in again_kept and again_freed of d->m. */
void metrics_compare_calls(const struct device_pass *d, const struct tables *t,
			   const struct live_passes *p);

/* The blocks of earlier steps that calls of the model from some lines have left, where backward
 * passes have freed blocks of calls from other lines, and never any of these. */
bytes metrics_never_used(const struct device_pass *d, const struct tables *t,
			 const struct surviving_block *left, size_t count);

/* Counts the model's spans since the last backward pass or optimizer step: run_calls and line_calls
 * of d->m. */
void metrics_count_calls(const struct device_pass *d);

#endif
