/* A report as JSON. */
#ifndef MEMTRACE_REPORT_JSON_H
#define MEMTRACE_REPORT_JSON_H

#include <jansson.h>

#include "util/buf.h"
#include "report/report.h"

/* Takes a part of the text; not 0: the rest is not wanted. */
typedef int report_json_write(void *context, const char *text, size_t length);

/* Changes the values of a rank, of a finding or of the job before they are text. */
typedef void report_json_edit(void *context, json_t *value);

/* Calls `write` with one part after the other, each of a rank or a finding; `edit` may be NULL.
 * Returns what `write` last did. */
int report_json_each(const struct report *report, report_json_write *write, report_json_edit *edit,
		     void *context);
/* All of it in memory. */
void report_json(const struct report *report, struct buf *out);

#endif
