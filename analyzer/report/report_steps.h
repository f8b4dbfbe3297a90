/* Steps, phases and their times in a report. */
#ifndef MEMTRACE_REPORT_STEPS_H
#define MEMTRACE_REPORT_STEPS_H

#include "replay/replay.h"
#include "report/report.h"

/* Fills `steps`, `spans` and `phases`. `end_ns`: the time of the trace's last record. */
void report_add_steps(struct rank *r, const struct device *d, uint64_t end_ns);

/* The highest levels over time. */
void report_add_timeline(struct rank *r, const struct timeline *t);

#endif
