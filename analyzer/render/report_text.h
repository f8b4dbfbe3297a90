/* A report as text. Renderers read the report only, never a trace, and write into memory. */
#ifndef MEMTRACE_REPORT_TEXT_H
#define MEMTRACE_REPORT_TEXT_H

#include "util/buf.h"
#include "report/report.h"
#include "util/terminal.h"

void report_text(const struct report *report, const struct style *style, struct buf *out);

#endif
