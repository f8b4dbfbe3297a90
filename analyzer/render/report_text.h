/* A report as text. Renderers read the report only, never a trace, and write into memory. */
#ifndef MEMTRACE_REPORT_TEXT_H
#define MEMTRACE_REPORT_TEXT_H

#include "util/buf.h"
#include "report/report.h"
#include "util/terminal.h"

void report_text(const struct report *report, const struct style *style, struct buf *out);
/* The report's failure in one line, or else its highest peak. */
void report_headline(const struct report *report, const struct style *style, struct buf *out);
/* The first lines of report_text(): the failure, the diagnosis, the table of ranks, or the only
 * rank. */
void report_answer(const struct report *report, const struct style *style, struct buf *out);

#endif
