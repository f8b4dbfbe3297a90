/*
 * The traces of a job as one report. This is the only loader of trace files: they are read in
 * parallel, one file a thread.
 */
#ifndef MEMTRACE_SESSION_H
#define MEMTRACE_SESSION_H

#include "config/config.h"
#include "report/rank_groups.h"
#include "report/report.h"
#include "session/trace_files.h"
#include "util/buf.h"

struct trace;

/*
 * Memory for 10,000 ranks: with more files than SESSION_MAX_WHOLE only the rank that is shown in
 * detail keeps all of its entry. The others keep their largest SESSION_REDUCED_STACKS stacks and
 * SESSION_REDUCED_POINTS points of their curve, of more ranks than SESSION_MANY
 * SESSION_MANY_POINTS. Nothing is reduced if keep_live or keep_peak_blocks is set.
 */
#define SESSION_MAX_WHOLE 64
#define SESSION_REDUCED_STACKS 10
#define SESSION_REDUCED_POINTS 64
#define SESSION_MANY 1024
#define SESSION_MANY_POINTS 16

static inline size_t session_points(size_t ranks)
{
	return ranks > SESSION_MANY ? SESSION_MANY_POINTS : SESSION_REDUCED_POINTS;
}

struct session_options {
	const char *run;   /* for attempts_choose(); NULL: the latest run of each directory */
	int every_attempt; /* all attempts of the job, unless `run` names one; else the chosen one
			    */
	int rank;          /* of this rank only; NO_RANK: all */
	const char *phase; /* replay_options.phase */
	int keep_live;     /* the report keeps each block that is live at the end */
	int keep_peak_blocks;  /* the report keeps each block that is live at the peak */
	int measures_need;     /* the job ran again to measure what it needs */
	int needs_every_trace; /* one trace that cannot be read is a failure, not a note */
	void (*progress)(void *context, double part); /* `part`: 0 to 1; NULL: none */
	/* Called for each trace once it is in the report and while it is loaded, by several threads
	 * at a time; `file` is its index in `files`. Returns -1 if the trace is of no use. NULL:
	 * none. */
	int (*on_trace)(void *context, size_t file, const struct trace *t, struct err *e);
	/* Receives the report of the devices of each trace, and what the trace declares, by several
	 * threads at a time; the session's report stays empty, so that memory does not grow with
	 * the number of traces. NULL: none. */
	void (*on_devices)(void *context, struct report *devices, const struct config *declared);
	void *context; /* of on_trace and on_devices */
};

struct session {
	struct trace_files files;
	struct report report; /* sorted by rank */
	struct config config; /* the declaration of the rank that is shown in detail */
	int has_config;
	char **argv; /* the command line of that rank; control characters are '?' */
	size_t argv_count;
	char **command;         /* the same as it was, to run and not to print; ends with NULL */
	char *working;          /* its working directory; NULL: unknown */
	char **arguments, *run; /* of the report */
	size_t argument_count;
};

/* Finds the trace files of `arguments`; session_read() follows. `notes` receives a line for each
 * file or run that is left out. The session must be released even on failure. */
int session_find(struct session *s, char *const *arguments, size_t count, const char *run,
		 struct buf *notes, struct err *e);
/* Reads the files into `report`. `notes` receives a line for each file that cannot be read. Fails
 * if no trace can be read. */
int session_read(struct session *s, const struct session_options *o, struct buf *notes,
		 struct err *e);
/* session_find() and session_read(), or the records of `memtrace summarize` if the arguments name
 * files of them; also sets `config`, `argv`, and `as_job` if the traces are of
 * several ranks of one job. */
int session_load(struct session *s, char *const *arguments, size_t count,
		 const struct session_options *o, struct buf *notes, struct err *e);
void session_release(struct session *s);

#endif
