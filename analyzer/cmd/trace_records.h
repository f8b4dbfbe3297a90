/* Traces as records, one by one. */
#ifndef MEMTRACE_TRACE_RECORDS_H
#define MEMTRACE_TRACE_RECORDS_H

#include "util/buf.h"
#include "util/err.h"

struct trace_records_options {
	const char *run; /* NULL: every run of a directory */
	int estimate;    /* with the estimate of each configuration */
	/* Gets the records of a trace, lines with their ends, as soon as they are ready. One
	 * thread at a time calls it. -1: they cannot be written. */
	int (*on)(void *context, struct str lines);
	void *context;
};

/* Reads the traces and hands their records to options->on. */
int trace_records(char *const *paths, size_t count, const struct trace_records_options *options,
		  struct buf *notes, struct err *e);

#endif
