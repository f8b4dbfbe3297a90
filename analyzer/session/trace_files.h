/* The trace files that a command reads: files that are named, and of a directory the traces of one
 * run. */
#ifndef MEMTRACE_TRACE_FILES_H
#define MEMTRACE_TRACE_FILES_H

#include "util/buf.h"
#include "util/err.h"

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

/*
 * Finds the traces of `arguments`, which are files and directories (their *.mtr, without
 * subdirectories). Of each directory only one run is used: the run that `run` names ("ID",
 * "ID:RESTART", ":RESTART", or "oom": one that ran out of memory), the latest of several. If `run`
 * is NULL, the latest run, and of its attempts the last that ran out of memory, else the one that
 * allocated most often. `notes` receives a line for each run or file that is left out. Fails if no
 * file is left.
 */
int trace_files_find(struct trace_files *g, char *const *arguments, size_t count, const char *run,
		     struct buf *notes, struct err *e);
void trace_files_release(struct trace_files *g);

/* Lists the runs of a directory as "ID:RESTART", the oldest first. The caller frees the list and
 * its texts. */
int trace_files_runs(const char *directory, char ***runs, size_t *count, struct err *e);

#endif
