/* The owners of the device's memory, and NCCL's communicators, in a report. */
#ifndef MEMTRACE_REPORT_OWNERS_H
#define MEMTRACE_REPORT_OWNERS_H

#include "replay/replay.h"
#include "report/report.h"

/* Fills `owners`. `beyond`: bytes of the device's peak that only the running counters know; they
 * are unexplained. */
void report_add_owners(struct rank *r, const struct device *d, bytes beyond);
/* Fills `by_owner` of a failed allocation. `total`: the device's memory, or UNKNOWN_BYTES. */
void report_add_failure_owners(struct oom *o, const struct failure *f, bytes total);
/* The peak of pinned memory. A snapshot without its history looks like one of a job that pins
 * nothing, and a profile never has it: 0 of another tool's file is UNKNOWN_BYTES. */
bytes report_pinned_peak(const struct host *host, int is_imported);
/* Fills the peaks that belong to no total. */
void report_add_beside(struct rank *r, const struct device *d, const struct host *host);
void report_add_communicators(struct rank *r, const struct device *d, const struct tables *t);

#endif
