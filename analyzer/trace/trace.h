/*
 * Reading a trace file: checks everything, means nothing. All that comes out is safe to use:
 * extents lie inside the file, ids inside the tables. The file is read with pread, never mapped, so
 * a file that shrinks meanwhile ends early and harms nobody.
 */
#ifndef MEMTRACE_ANALYZER_TRACE_H
#define MEMTRACE_ANALYZER_TRACE_H

#include <memtrace/trace.h>

#include "util/err.h"
#include "trace/tables.h"
#include "util/util.h"

/* Where the bytes come from: a file, or memory (tests). */
struct source {
	int fd; /* -1: memory */
	const unsigned char *memory;
	uint64_t size;
};

/* A run of records, clipped to what is there. */
struct extent {
	uint64_t offset;
	uint64_t records;
};

struct segment {
	struct extent events;
	struct extent
		keyframe; /* has_keyframe says whether an empty one means "nothing was live" */
	int has_keyframe;
	uint64_t first_sequence;
	uint64_t declared; /* records that there should be, events.records of which are in the file */
	uint64_t gap;      /* records missing between the segment before and this one */
	uint64_t given_up; /* those of them that the writer took back on purpose */
};

enum lock_state { LOCK_UNKNOWN, LOCK_FREE, LOCK_HELD };

struct trace {
	char *path;
	struct source source;
	struct mt_header header; /* as it was when the file was opened; its texts end with a zero */
	struct tables tables;
	struct segment *segments; /* by first_sequence */
	size_t segment_count;
	enum lock_state lock; /* the writer's */

	/* What was wrong, for warnings. */
	int truncated;             /* the file ends before its last record */
	unsigned skipped_segments; /* outside of the file, or on top of another */
};

/* Only the header: enough to know which run the file belongs to. The trace must be released even on
 * failure. */
int trace_open_header(struct trace *t, const char *path, struct err *e);
/* The rest, after trace_open_header. */
int trace_load(struct trace *t, struct err *e);
/* The same over memory that outlives the trace. */
int trace_open_memory(struct trace *t, const void *memory, uint64_t size, struct err *e);
void trace_release(struct trace *t);

/* Reads at most `most` records of an extent from its record `first` on; fewer, or 0, where the file
 * ends. */
size_t trace_read(const struct trace *t, const struct extent *x, uint64_t first,
		  struct mt_record *to, size_t most);

/* Did a running job take one of the segments for new records since the trace was opened? */
int trace_changed(const struct trace *t);

#endif
