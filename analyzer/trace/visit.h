/* Visiting the records of a trace in order, segment after segment. */
#ifndef MEMTRACE_VISIT_H
#define MEMTRACE_VISIT_H

#include "trace/trace.h"

/* Every function but `progress` must be set. `context` is passed to each. */
struct record_visitor {
	void *context;
	/* A keyframe follows: the records before it are lost, so what was live is not known any
	 * more. */
	void (*keyframe_begin)(void *context);
	/* Records of the keyframe: the allocations that are live. They are no events. */
	void (*keyframe)(void *context, const struct mt_record *records, size_t count);
	/* The keyframe is complete; the records of `segment` follow. */
	void (*keyframe_end)(void *context, uint64_t segment);
	/* Records of a segment; `first` is the index of the first one in it. */
	void (*records)(void *context, uint64_t segment, uint64_t first,
			const struct mt_record *records, size_t count);
	/* The part of the records that was visited, 0 to 1. May be NULL. */
	void (*progress)(void *context, double part);
};

/* Returns 0, or -1 if the file ended early. */
int trace_visit(const struct trace *t, const struct record_visitor *visitor);

#endif
