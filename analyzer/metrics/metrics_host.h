/* Pinned host memory, as the pass over a trace counts it. */
#ifndef MEMTRACE_METRICS_HOST_H
#define MEMTRACE_METRICS_HOST_H

#include "metrics/metrics_pass.h"

/* An event of the layer HOST. */
void metrics_record_host(struct metrics_pass *p, const struct mt_record *r);

#endif
