/* Metrics of the live blocks that explain a peak: forward passes, duplicates, tensors that grow,
 * and tensors that are out of proportion. */
#ifndef MEMTRACE_METRICS_LIVE_H
#define MEMTRACE_METRICS_LIVE_H

#include "metrics/metrics_pass.h"

/* `live`: the live blocks of the moment. Fills in d->m, after the sizes of metrics_sizes.h. */
void metrics_what_is_live(const struct metrics_pass *p, struct device_pass *d,
			  const struct snapshot *live);

#endif
