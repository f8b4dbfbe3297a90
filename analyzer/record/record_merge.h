/*
 * Joins records: each process and device once, whatever the order in which they come and however
 * often. Of two records of one process the later one wins. Memory holds the keys alone; the lines
 * are in a temporary file.
 */
#ifndef MEMTRACE_RECORD_MERGE_H
#define MEMTRACE_RECORD_MERGE_H

#include "record/record.h"

struct record_merge;

/* NULL: there is no place for the temporary file. */
struct record_merge *record_merge_new(struct err *e);
void record_merge_free(struct record_merge *m);
/* `context` is the merge: a function for record_each(). */
int record_merge_add(void *context, const json_t *record, struct str line, struct err *e);
/* Sorts by run, restart, rank and device, and calls `on` for each line, which ends with a line end.
 */
int record_merge_each(struct record_merge *m, int (*on)(void *context, struct str line),
		      void *context, struct err *e);

#endif
