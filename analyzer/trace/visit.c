#include "trace/visit.h"

#include <stdlib.h>

/* walk_alloc_kind counts on it. */
#define EVENT(name, id, layer, effect, meaning) CHECK_##effect(name, id)
#define CHECK_ALLOC(name, id)
#define CHECK_LEVEL(name, id)
#define CHECK_FAIL(name, id)
#define CHECK_SAMPLE(name, id)
#define CHECK_FREE(name, id) static_assert(FOLLOWS_##name(id), #name);
#define FOLLOWS_TENSOR_FREE(id) id == MT_TENSOR_ALLOC + 1
#define FOLLOWS_DEVICE_FREE(id) id == MT_DEVICE_ALLOC + 1
#define FOLLOWS_POOL_FREE(id) id == MT_POOL_ALLOC + 1
#define FOLLOWS_MANAGED_FREE(id) id == MT_MANAGED_ALLOC + 1
#define FOLLOWS_HOST_FREE(id) id == MT_HOST_ALLOC + 1
#define FOLLOWS_PHYSICAL_FREE(id) id == MT_PHYSICAL_ALLOC + 1
#define FOLLOWS_UNMAP(id) id == MT_MAP + 1
#define FOLLOWS_ARRAY_FREE(id) id == MT_ARRAY_ALLOC + 1
#define FOLLOWS_HOST_UNREGISTER(id) id == MT_HOST_REGISTER + 1
#define FOLLOWS_ALIAS_CLOSE(id) id == MT_ALIAS_OPEN + 1
#define FOLLOWS_COMM_DESTROY(id) id == MT_COMM_INIT + 1
#include <memtrace/events.def>
#undef EVENT

#define CHUNK 8192 /* records read at a time: 256 KiB, about a cache */

static uint64_t all_records(const struct trace *t)
{
	uint64_t n = 1;

	for (size_t i = 0; i < t->segment_count; i++)
		n += t->segments[i].events.records;
	return n;
}

static int walk_keyframe(const struct trace *t, const struct segment *s, uint64_t index,
			 const struct walker *w, struct mt_record *chunk)
{
	w->restart(w->context);
	for (uint64_t at = 0; at < s->keyframe.records;) {
		size_t n = trace_read(t, &s->keyframe, at, chunk, CHUNK);

		if (!n)
			return -1;
		w->keyframe(w->context, chunk, n);
		at += n;
	}
	w->restarted(w->context, index);
	return 0;
}

int walk(const struct trace *t, const struct walker *w)
{
	struct mt_record *chunk = xcalloc(CHUNK, sizeof(*chunk));
	uint64_t total = all_records(t), done = 0;
	int status = 0;

	for (size_t i = 0; i < t->segment_count; i++) {
		const struct segment *s = &t->segments[i];

		if (s->gap && s->has_keyframe)
			status |= walk_keyframe(t, s, i, w, chunk);
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
