/*
 * Reading a trace file. Everything is checked and nothing interpreted: the extents that come out
 * lie inside the file, and the ids inside the tables. The file is read by pread() and never mapped,
 * so a file that shrinks meanwhile ends early and does no harm.
 */
#ifndef MEMTRACE_ANALYZER_TRACE_H
#define MEMTRACE_ANALYZER_TRACE_H

#include <memtrace/trace.h>

#include "util/err.h"
#include "trace/tables.h"
#include "util/util.h"

/* The bytes of a trace: a file, or memory (tests). */
struct source {
	int fd; /* -1: memory */
	const unsigned char *memory;
	uint64_t size;
};

/* A run of records, clipped to the end of the file. */
struct extent {
	uint64_t offset;
	uint64_t records;
};

struct segment {
	struct extent events;
	struct extent keyframe; /* empty and has_keyframe: nothing was live */
	int has_keyframe;
	uint64_t first_sequence;
	uint64_t declared; /* records that the header counts; events.records of them are in the file
			    */
	uint64_t gap;      /* records missing between the segment before and this one */
	uint64_t given_up; /* of them, those whose space the recorder reused */
};

enum lock_state { LOCK_UNKNOWN, LOCK_FREE, LOCK_HELD };

struct converted;

struct trace {
	char *path;
	struct source source;
	struct converted *converted; /* NULL: the file is a trace itself */
	struct mt_header header; /* as read when the file was opened; its texts end with a zero */
	struct tables tables;
	struct segment *segments; /* by first_sequence */
	size_t segment_count;
	enum lock_state lock; /* the writer's */

	/* Damage, for warnings. */
	int truncated;             /* the file ends before its last record */
	unsigned skipped_segments; /* beyond the end of the file, or overlapping another */
};

/* Opens a trace and reads its header only, enough to know its run. trace_release() must follow,
 * also after a failure. */
int trace_open_header(struct trace *t, const char *path, struct err *e);
/* Reads the rest, after trace_open_header(). */
int trace_load(struct trace *t, struct err *e);
/* Opens and reads a trace in memory, which must stay as long as the trace. */
int trace_open_memory(struct trace *t, const void *memory, uint64_t size, struct err *e);
void trace_release(struct trace *t);

/* Reads up to `most` records of an extent, beginning with record `first`. Returns how many: fewer,
 * or 0, at the end of the file. */
size_t trace_read(const struct trace *t, const struct extent *x, uint64_t first,
		  struct mt_record *to, size_t most);

/* Is it another tool's file, of PyTorch's allocator alone? It has no peak of the device, no owners
 * of other memory, and no end. */
static inline int trace_is_imported(const struct trace *t)
{
	return t->converted != NULL;
}

/* Did the job, which still runs, reuse a segment for new records since the trace was opened? */
int trace_changed(const struct trace *t);

#endif
