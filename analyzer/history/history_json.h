/* The history of runs as data. */
#ifndef MEMTRACE_HISTORY_JSON_H
#define MEMTRACE_HISTORY_JSON_H

#include "history/trend.h"
#include "util/buf.h"

void history_list_json(const struct history_run *runs, size_t count, struct buf *out);

/* Both with their parts; `b` NULL: one run. */
void history_pair_json(const struct history_run *a, const struct history_run *b, struct buf *out);

void history_trend_json(const struct job_trend *trends, size_t count, int days, struct buf *out);

#endif
