/*
 * The events of a trace in order, each free with the record of the allocation that it frees. If
 * records are missing, blocks that the next keyframe no longer has are freed there, and blocks that
 * it has besides are allocated there, and a block whose address is allocated again is freed before,
 * so that the live set is always that of the trace.
 */
#ifndef MEMTRACE_EXPORT_EVENTS_H
#define MEMTRACE_EXPORT_EVENTS_H

#include "trace/trace.h"

struct event_sink {
	void *context;
	uint64_t until; /* events from this number on are left out; UINT64_MAX: none */
	/* `sequence`: the number of the record; of one that is missing, that of the next.
	 * `allocated`: of a FREE event, what it frees; NULL: not known, or another event. It is
	 * valid during the call only. */
	void (*event)(void *context, uint64_t sequence, const struct mt_record *r,
		      const struct mt_record *allocated);
	/* The allocations that are live at the end, or before the event `until`, in no order. May
	 * be NULL. */
	void (*live)(void *context, const struct mt_record *allocated);
};

/* `event` may be NULL. Returns 0, or -1 if the file ended early. */
int events_visit(const struct trace *t, const struct event_sink *sink);

#endif
