/* Warnings of a report: which of its numbers are incomplete, and why. */
#ifndef MEMTRACE_REPORT_WARNINGS_H
#define MEMTRACE_REPORT_WARNINGS_H

#include "replay/replay.h"
#include "report/report.h"

/* Adds one warning; control characters become '?'. */
__attribute__((format(printf, 2, 3))) void report_warn(struct rank *r, const char *format, ...);
/* Warns of events that the trace lacks and of damaged parts. */
void report_add_warnings(struct rank *r, const struct trace *t, const struct replay *p);
/* Warns of what the simulated device of the job did not compute. */
void report_warn_of_simulation(struct rank *r, const struct trace *t);
/* Warns of peaks and failures that only the running counters know. */
void report_warn_of_moments(struct rank *r, const struct device *d,
			    const struct mt_device *running);

#endif
