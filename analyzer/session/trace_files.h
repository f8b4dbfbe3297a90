/* Which files to report: those that were named, and of a directory the traces of one run. */
#ifndef MEMTRACE_GATHER_H
#define MEMTRACE_GATHER_H

#include "util/buf.h"
#include "util/err.h"

/* A file that cannot be read, and why. */
struct unread {
	char *path, *why;
};

struct gather {
	char **paths;
	size_t count, room;
	struct unread *unread;
	size_t unread_count, unread_room;
};

/*
 * Takes files and directories (their *.mtr, not deeper). Of each directory only its latest run (the
 * restart that began last) is taken, or the one that `run` names: "ID" or "ID:RESTART". What is
 * left out or cannot be read goes to `notes`, a line each. Fails if nothing is left.
 */
int gather_traces(struct gather *g, char *const *arguments, size_t count, const char *run,
		  struct buf *notes, struct err *e);
void gather_release(struct gather *g);

/* The runs in a directory as `run` above takes them, "ID:RESTART", the oldest first. The caller
 * frees the list and its texts. */
int gather_runs(const char *directory, char ***runs, size_t *count, struct err *e);

#endif
