/* The metrics of a device, kept with its entry of the report. */
#ifndef MEMTRACE_REPORT_METRICS_H
#define MEMTRACE_REPORT_METRICS_H

#include "metrics/metrics.h"
#include "report/report.h"

/* Copies `m`, within bounds in which the products of rules do not overflow, and the labels of the
 * stacks that it names. */
void report_keep_metrics(struct rank *r, const struct metrics *m, const struct tables *t);
/* Brings the metrics within those bounds. */
void report_clamp_metrics(struct metrics *m);

#endif
