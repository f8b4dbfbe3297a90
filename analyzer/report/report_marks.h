/* The job's own phases and moments, for the report. */
#ifndef MEMTRACE_REPORT_MARKS_H
#define MEMTRACE_REPORT_MARKS_H

#include "replay/replay.h"
#include "report/report.h"
#include "trace/trace.h"

/* Fills `named` and `moments`, and the names of the phases of the peaks and failures of device `d`,
 * which is number `device`. */
void report_add_marks(struct rank *r, const struct trace *t, const struct replay *p, int device);

#endif
