/* Metrics that follow from the declared configuration. */
#ifndef MEMTRACE_METRICS_CONFIG_H
#define MEMTRACE_METRICS_CONFIG_H

#include "metrics/metrics.h"

struct config;
struct trace;

/* Sets the metrics of the section "The job's settings". `c`: what the trace declares, or NULL.
 * Reads the tags in `m`. */
void metrics_from_config(struct metrics *m, const struct trace *t, const struct config *c);

#endif
