#include "trace/visit.h"

#include <stdlib.h>

#define CHUNK 8192 /* records read at a time: 256 KiB, the size of a core's cache */

static uint64_t all_records(const struct trace *t)
{
	uint64_t n = 1;

	for (size_t i = 0; i < t->segment_count; i++)
		n += t->segments[i].events.records;
	return n;
}

static int visit_keyframe(const struct trace *t, const struct segment *s, uint64_t index,
			  const struct record_visitor *w, struct mt_record *chunk)
{
	w->keyframe_begin(w->context);
	for (uint64_t at = 0; at < s->keyframe.records;) {
		size_t n = trace_read(t, &s->keyframe, at, chunk, CHUNK);

		if (!n)
			return -1;
		w->keyframe(w->context, chunk, n);
		at += n;
	}
	w->keyframe_end(w->context, index);
	return 0;
}

int trace_visit(const struct trace *t, const struct record_visitor *w)
{
	struct mt_record *chunk = xcalloc(CHUNK, sizeof(*chunk));
	uint64_t total = all_records(t), done = 0;
	int status = 0;

	for (size_t i = 0; i < t->segment_count; i++) {
		const struct segment *s = &t->segments[i];

		if (s->gap && s->has_keyframe)
			status |= visit_keyframe(t, s, i, w, chunk);
		for (uint64_t at = 0; at < s->events.records;) {
			size_t n = trace_read(t, &s->events, at, chunk, CHUNK);

			if (!n) {
				status = -1;
				break;
			}
			w->records(w->context, i, at, chunk, n);
			at += n;
			done += n;
			if (w->progress)
				w->progress(w->context, (double)done / (double)total);
		}
	}
	free(chunk);
	return status;
}
