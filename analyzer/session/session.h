/* The traces of a job as a report: several read at a time, one job of them. */
#ifndef MEMTRACE_SESSION_H
#define MEMTRACE_SESSION_H

#include "util/buf.h"
#include "config/config.h"
#include "session/trace_files.h"
#include "report/rank_groups.h"
#include "report/report.h"

/*
 * Of a job of more traces only the rank to show in detail is kept whole; of each other its largest
 * SESSION_REDUCED_STACKS stacks, and no curves: what 1,000 ranks have to say must fit into memory.
 */
#define SESSION_MAX_WHOLE 64
#define SESSION_REDUCED_STACKS 20

struct session_options {
	const char *run; /* the one to take, or NULL */
	int keep_live;
	int rank; /* only this one; NO_RANK: all */
	void (*progress)(void *context, double part); /* NULL: none */
};

/* What was read. */
struct session {
	struct trace_files files;
	struct report report; /* `as_job` is set if it is of several ranks */
	struct config config; /* what its processes declare */
	int has_config;
	char **argv; /* of the worst rank; texts are clean */
	size_t argv_count;
};

/* Remarks go to `notes`, a line each. Must be released even on failure. */
int session_load(struct session *j, char *const *arguments, size_t count, const struct session_options *o,
	     struct buf *notes, struct err *e);
void session_release(struct session *j);

#endif
