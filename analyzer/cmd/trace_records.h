/* Traces as records, one by one. */
#ifndef MEMTRACE_TRACE_RECORDS_H
#define MEMTRACE_TRACE_RECORDS_H

#include "util/buf.h"
#include "util/err.h"

/* Reads the traces and calls `on` with the records of each, lines with their ends, by one thread at
 * a time, as each is ready. `run`: NULL: every run of a directory. `estimate`: with what the
 * configurations should need. */
int trace_records(char *const *paths, size_t count, const char *run, int estimate,
		  int (*on)(void *context, struct str lines), void *context, struct buf *notes,
		  struct err *e);

#endif
