/* The lines of files of records. */
#ifndef MEMTRACE_RECORD_LINES_H
#define MEMTRACE_RECORD_LINES_H

#include <stdio.h>

#include "record/record.h"

/* Does `path` name records: "-" for standard input, a pipe, which is not read here, or a file that
 * begins as a JSON object? */
int path_is_records(const char *path);

/* Opens a file of records to be read by record_each_of(), several times if need be: of what can be
 * read only once it is a copy. NULL: it cannot be opened. */
FILE *record_open(const char *path, struct err *e);
/* Is it lost once it is closed? */
int record_is_copy(const char *path);

/* Calls `on` for each record of a file; `line` has no line end. Empty lines are skipped. `notes`
 * receives a line for each one that is not a record. Returns how many were, or -1: the file cannot
 * be read, or `on` failed. */
int record_each(const char *path,
		int (*on)(void *context, const json_t *record, struct str line, struct err *e),
		void *context, struct buf *notes, struct err *e);
/* The same of a file of record_open(), from its begin; `path` is its name in messages. */
int record_each_of(FILE *f, const char *path,
		   int (*on)(void *context, const json_t *record, struct str line, struct err *e),
		   void *context, struct buf *notes, struct err *e);

#endif
