#include "export/events.h"

#include <string.h>

#include "replay/live_set.h"
#include "trace/event.h"
#include "trace/visit.h"

struct events_pass {
	const struct trace *trace;
	const struct event_sink *sink;
	struct live_set live, keyframe;
	uint64_t sequence, last_ns;
};

static void emit(struct events_pass *p, const struct mt_record *r,
		 const struct mt_record *allocated)
{
	if (p->sink->event)
		p->sink->event(p->sink->context, p->sequence, r, allocated);
}

static void emit_missing_free(struct events_pass *p, const struct mt_record *was, uint64_t time_ns)
{
	struct mt_record freed = *was;

	freed.kind++; /* events.def: a FREE event has the next id */
	freed.bytes = -was->bytes;
	freed.time_ns = time_ns;
	freed.stack = MT_NO_STACK;
	freed.thread = MT_NO_THREAD;
	emit(p, &freed, was);
}

static void on_record(struct events_pass *p, const struct mt_record *r)
{
	unsigned alloc = event_alloc_kind(r->kind);
	struct mt_record was;

	if (!r->kind || !record_is_valid(r))
		return;
	p->last_ns = r->time_ns > p->last_ns ? r->time_ns : p->last_ns;
	if (alloc == r->kind && !live_set_replace(&p->live, r, &was))
		emit_missing_free(p, &was, r->time_ns);
	if (alloc && alloc != r->kind && live_set_take(&p->live, alloc, r->address, &was))
		emit(p, r, &was);
	else
		emit(p, r, NULL);
}

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	struct events_pass *p = context;

	for (size_t i = 0; i < count; i++) {
		p->sequence = p->trace->segments[segment].first_sequence + first + i;
		if (p->sequence >= p->sink->until)
			return;
		on_record(p, &records[i]);
	}
}

static void on_keyframe_begin(void *context)
{
	struct events_pass *p = context;

	live_set_clear(&p->keyframe);
}

static void on_keyframe(void *context, const struct mt_record *records, size_t count)
{
	struct events_pass *p = context;

	for (size_t i = 0; i < count; i++)
		if (records[i].kind && record_is_valid(&records[i]) &&
		    event_alloc_kind(records[i].kind) == records[i].kind)
			live_set_add(&p->keyframe, &records[i]);
}

static int has(const struct live_set *l, const struct mt_record *r)
{
	const struct mt_record *found = live_set_find(l, r->kind, r->address);

	return found && found->time_ns == r->time_ns && found->bytes == r->bytes;
}

/* The records that are missing end here. */
static void on_keyframe_end(void *context, uint64_t segment)
{
	struct events_pass *p = context;
	struct live_set old = p->live;

	p->sequence = p->trace->segments[segment].first_sequence;
	if (p->sequence > p->sink->until) /* a moment may be that behind the gap */
		return;
	for (size_t i = 0; i <= old.mask; i++) {
		const struct mt_record *was = &old.slots[i];

		if (was->kind && !has(&p->keyframe, was))
			emit_missing_free(p, was, p->last_ns);
	}
	for (size_t i = 0; i <= p->keyframe.mask; i++)
		if (p->keyframe.slots[i].kind && !has(&old, &p->keyframe.slots[i]))
			emit(p, &p->keyframe.slots[i], NULL);
	p->live = p->keyframe;
	p->keyframe = old;
}

int events_visit(const struct trace *t, const struct event_sink *sink)
{
	struct events_pass p = { .trace = t, .sink = sink };
	const struct record_visitor visitor = {
		.context = &p,
		.keyframe_begin = on_keyframe_begin,
		.keyframe = on_keyframe,
		.keyframe_end = on_keyframe_end,
		.records = on_records,
	};
	int status;

	live_set_init(&p.live);
	live_set_init(&p.keyframe);
	status = trace_visit(t, &visitor);
	for (size_t i = 0; sink->live && i <= p.live.mask; i++)
		if (p.live.slots[i].kind)
			sink->live(sink->context, &p.live.slots[i]);
	live_set_release(&p.live);
	live_set_release(&p.keyframe);
	return status;
}
