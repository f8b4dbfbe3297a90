/* The traces of a job as a report: several read at a time, one job of them. */
#ifndef MEMTRACE_LOAD_H
#define MEMTRACE_LOAD_H

#include "util/buf.h"
#include "config/config.h"
#include "session/trace_files.h"
#include "report/rank_groups.h"
#include "report/report.h"

/*
 * Of a job of more traces only the rank to show in detail is kept whole; of each other its largest
 * LOAD_STACKS places, and no curves: what 1,000 ranks have to say must fit into memory.
 */
#define LOAD_WHOLE 64
#define LOAD_STACKS 20

struct load_options {
	const char *run; /* the one to take, or NULL */
	int keep_live;
	int rank; /* only this one; NO_RANK: all */
	void (*progress)(void *context, double part); /* NULL: none */
};

/* What was read. */
struct loaded {
	struct gather gather;
	struct report report; /* `as_job` is set if it is of several ranks */
	struct config config; /* what its processes declare */
	int has_config;
	char **argv; /* of the worst rank; texts are clean */
	size_t argv_count;
};

/* Remarks go to `notes`, a line each. Must be released even on failure. */
int load_traces(struct loaded *j, char *const *arguments, size_t count, const struct load_options *o,
	     struct buf *notes, struct err *e);
void load_release(struct loaded *j);

#endif
