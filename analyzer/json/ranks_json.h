/* The ranks of a job, and the runs of a directory, beside each other, as JSON. */
#ifndef MEMTRACE_RANKS_JSON_H
#define MEMTRACE_RANKS_JSON_H

#include "report/report.h"
#include "session/trace_files.h"

#include <jansson.h>

/* Layout, groups, outliers, missing ranks and unreadable files. */
json_t *ranks_json(const struct report *r);

/* The runs of a directory, as a document. */
void runs_json(const struct recorded_run *runs, size_t count, struct buf *out);

#endif
