/* Tensors of twice the size of the one that they come from. */
#ifndef MEMTRACE_METRICS_DOUBLED_H
#define MEMTRACE_METRICS_DOUBLED_H

#include "metrics/metrics_pass.h"

/* `live`: the live blocks of the moment. Fills in d->m. */
void metrics_find_doubled(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live);

#endif
