/* The tail of a process's trace: the last records, from a keyframe on. */
#ifndef MEMTRACE_LIVE_TAIL_H
#define MEMTRACE_LIVE_TAIL_H

#include "live/process.h"
#include "report/report.h"
#include "util/err.h"

/* A tail has at least so many records, if the trace has them: some dozens of steps of most jobs,
 * and a replay of a few hundredths of a second. */
#define TAIL_RECORDS (UINT64_C(1) << 18)

/* Replays the tail, and sets `tail` of each device. What was known stays if the job overwrites the
 * records meanwhile. */
void live_tail_read(struct live_process *p);

/* The report on the tail: an entry for each device. report_release() must follow, also after a
 * failure. */
int live_tail_report(const struct live_process *p, struct report *r, struct err *e);

#endif
