/* What the job's own code has on the device at the moment: data, inputs, results, and what its
 * hooks keep. */
#ifndef MEMTRACE_METRICS_OWN_H
#define MEMTRACE_METRICS_OWN_H

#include "metrics/metrics_pass.h"

/* Sets the metrics of sets of data, of the set-up, of inputs, evaluation and hooks. The passes and
 * duplicates of `live` are in the metrics already. */
void metrics_find_own(const struct metrics_pass *p, const struct device_pass *d,
		      const struct snapshot *live);

#endif
