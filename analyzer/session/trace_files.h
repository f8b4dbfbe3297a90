/* Which files to report: those that were named, and of a directory the traces of one run. */
#ifndef MEMTRACE_TRACE_FILES_H
#define MEMTRACE_TRACE_FILES_H

#include "util/buf.h"
#include "util/err.h"

/* A file that cannot be read, and why. */
struct unreadable_file {
	char *path, *why;
};

struct trace_files {
	char **paths;
	size_t count, room;
	struct unreadable_file *unreadable;
	size_t unreadable_count, unreadable_room;
};

/*
 * Takes files and directories (their *.mtr, not deeper). Of each directory only its latest run (the
 * restart that began last) is taken, or the one that `run` names: "ID" or "ID:RESTART". What is
 * left out or cannot be read goes to `notes`, a line each. Fails if nothing is left.
 */
int trace_files_find(struct trace_files *g, char *const *arguments, size_t count, const char *run,
		  struct buf *notes, struct err *e);
void trace_files_release(struct trace_files *g);

/* The runs in a directory as `run` above takes them, "ID:RESTART", the oldest first. The caller
 * frees the list and its texts. */
int trace_files_runs(const char *directory, char ***runs, size_t *count, struct err *e);

#endif
