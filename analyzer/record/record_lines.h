/* The lines of files of records. */
#ifndef MEMTRACE_RECORD_LINES_H
#define MEMTRACE_RECORD_LINES_H

#include "record/record.h"

/* Does `path` name records: "-" for standard input, a pipe, which is not read here, or a file that
 * begins as a JSON object? */
int path_is_records(const char *path);

/* Calls `on` for each record of a file; `line` has no line end. Empty lines are skipped. `notes`
 * receives a line for each one that is not a record. Returns how many were, or -1: the file cannot
 * be read, or `on` failed. */
int record_each(const char *path,
		int (*on)(void *context, const json_t *record, struct str line, struct err *e),
		void *context, struct buf *notes, struct err *e);

#endif
