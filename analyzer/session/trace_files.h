/* The trace files that a command reads: files that are named, and of a directory the traces of one
 * run. */
#ifndef MEMTRACE_TRACE_FILES_H
#define MEMTRACE_TRACE_FILES_H

#include "util/buf.h"
#include "util/err.h"
#include "util/util.h"

#include <stdint.h>

/* A file that cannot be read, and the reason. */
struct unreadable_file {
	char *path, *why;
};

struct trace_files {
	char **paths;
	size_t count, room;
	struct unreadable_file *unreadable;
	size_t unreadable_count, unreadable_room;
	struct buf attempts; /* the attempts of the run that is used, as text; empty: one only */
};

/* A value of `run` below: all runs of each directory. It is compared by its address, so that a
 * run may have that name. */
extern const char every_run[];

/*
 * Finds the traces of `arguments`, which are files and directories (their *.mtr, without
 * subdirectories). Of each directory only one attempt is used, by attempts_choose(); `run` names
 * it, or is NULL. `every_attempt`: all attempts of its job are used, unless `run` names one.
 * `notes` receives a line for each run or file that is left out. Fails if no file is left.
 */
int trace_files_find(struct trace_files *g, char *const *arguments, size_t count, const char *run,
		     int every_attempt, struct buf *notes, struct err *e);
void trace_files_release(struct trace_files *g);

/* How a run of a directory ended, from the headers of its traces: X(name, key, title). Of several
 * traces the last of this list is the end of the run. */
#define RUN_ENDS(X)                      \
	X(EXITED, "exit", "exited")      \
	X(UNKNOWN, "unknown", "unknown") \
	X(KILLED, "killed", "killed")    \
	X(FAILED, "failed", "failed")    \
	X(RUNNING, "running", "running") \
	X(OUT_OF_MEMORY, "oom", "out of memory")
enum run_end {
#define X(name, key, title) RUN_##name,
	RUN_ENDS(X)
#undef X
};
const char *run_end_key(enum run_end end);
const char *run_end_title(enum run_end end);

/* A run of a directory: one attempt of a job. The texts belong to it. */
struct recorded_run {
	char *name;   /* "ID:RESTART" */
	char *choice; /* the shortest value of --run that names it */
	int restart;
	uint64_t began_ns;    /* since the Unix epoch */
	int world_size;       /* 0 or less: unknown */
	size_t traces, ranks; /* ranks that have a trace; a trace without a rank counts as one */
	size_t ooms;          /* traces with a failed allocation */
	enum run_end end;
	bytes peak_allocated, peak_device; /* of one GPU, the highest; or UNKNOWN_BYTES */
	int is_latest;                     /* used if no run is named */
};

/* Lists the runs of a directory, the oldest first. The caller releases the list. `notes` receives a
 * line for each file that cannot be read. */
int trace_files_runs(const char *directory, struct recorded_run **runs, size_t *count,
		     struct buf *notes, struct err *e);
void recorded_runs_release(struct recorded_run *runs, size_t count);

#endif
