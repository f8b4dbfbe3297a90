/* A report as JSON. */
#ifndef MEMTRACE_REPORT_JSON_H
#define MEMTRACE_REPORT_JSON_H

#include "util/buf.h"
#include "report/report.h"

/* Takes a part of the text; not 0: the rest is not wanted. */
typedef int report_json_write(void *context, const char *text, size_t length);

/* Calls `write` with one part after the other, each of a rank or a finding. Returns what `write`
 * last did. */
int report_json_each(const struct report *report, report_json_write *write, void *context);
/* All of it in memory. */
void report_json(const struct report *report, struct buf *out);

#endif
