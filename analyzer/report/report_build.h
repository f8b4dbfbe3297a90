/* The parts of building a report. */
#ifndef MEMTRACE_REPORT_BUILD_H
#define MEMTRACE_REPORT_BUILD_H

#include "replay/replay.h"
#include "report/report.h"

/* Who held the device's memory; `beyond` bytes of its peak are known from the running counters
 * only. */
void report_add_owners(struct rank *r, const struct device *d, bytes beyond);
/* Who held it when an allocation failed. */
void report_add_failure_owners(struct oom *o, const struct failure *f, bytes total);
void report_add_communicators(struct rank *r, const struct device *d, const struct tables *t);

/* Steps, phases and when they were. */
void report_add_steps(struct rank *r, const struct device *d, uint64_t end_ns);

__attribute__((format(printf, 2, 3))) void report_warn(struct rank *r, const char *format, ...);
/* Which peaks and failures are known from the running counters alone. */
void report_warn_of_moments(struct rank *r, const struct device *d, const struct mt_device *running);
/* Of what is missing from the trace, or damaged in it. */
void report_add_warnings(struct rank *r, const struct trace *t, const struct replay *p);

#endif
