/* A file that is written whole or not at all: it has another name until it is complete. */
#ifndef MEMTRACE_WHOLE_FILE_H
#define MEMTRACE_WHOLE_FILE_H

#include <stdio.h>

#include "util/err.h"

struct whole_file {
	FILE *file;             /* what is written into */
	char *path, *temporary; /* NULL: of a device or a pipe, which is written directly */
};

/*
 * Opens PATH.memtrace-HOST-PID.tmp for writing, and removes such files of writers of this host that
 * were killed: a writer holds a lock (flock) on its own, which another host may not see.
 * `needs_name`: a library writes `temporary` itself, so a device is an error. After a failure,
 * whole_file_end() is allowed and not needed.
 */
int whole_file_begin(struct whole_file *w, const char *path, int needs_name, struct err *e);
/* Completes the file and renames it; if it `failed`, removes it instead. Returns 0, or -1 if it
 * failed or cannot be completed. */
int whole_file_end(struct whole_file *w, int failed, struct err *e);

#endif
