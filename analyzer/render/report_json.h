/* A report as JSON. */
#ifndef MEMTRACE_REPORT_JSON_H
#define MEMTRACE_REPORT_JSON_H

#include "util/buf.h"
#include "report/report.h"

void report_json(const struct report *report, struct buf *out);

#endif
