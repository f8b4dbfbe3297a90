/*
 * Perfetto's trace format (perfetto.proto): a process track for each rank, with a counter for each
 * level and slices for steps and phases. The level of tensors and of reserved memory has a point
 * for each event; that of the device has the lowest, the highest and the last of each bin of its
 * curve, so that neither a spike nor a dip is lost. What the job names itself (events of the layer
 * MARK) is on tracks of the process: its phases, which may overlap, and its moments.
 */
#include "export/events.h"
#include "export/export.h"
#include "export/perfetto.pb-c.h"
#include "report/report.h"
#include "trace/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tracks of a device. A track's number is unique in the file. */
enum track {
	TRACK_DEVICE, /* the parent of the others */
	TRACK_ALLOCATED,
	TRACK_RESERVED,
	TRACK_USED,
	TRACK_STEPS,
	TRACK_PHASES,
	TRACK_FAILURES,
	TRACKS
};

#define MAX_LANES 16 /* named phases that are open at once; others are left out */

struct perfetto {
	uint32_t traces; /* that were added */
	uint64_t tracks; /* numbers that were given out */
	uint8_t *packed;
	size_t room;
};

/* One trace of the file. */
struct writing {
	struct export *x;
	const struct input *in;
	uint64_t tracks[MT_MAX_DEVICES];
	bytes allocated[MT_MAX_DEVICES];
	uint64_t process, moments;  /* tracks; 0: there is none yet */
	uint64_t lanes[MAX_LANES];  /* tracks of named phases: an open phase has one of its own */
	uint64_t phases[MAX_LANES]; /* the phase that is open there; 0: none */
};

static void put(struct export *x, Perfetto__TracePacket *packet)
{
	struct perfetto *p = x->state;
	Perfetto__Trace trace = PERFETTO__TRACE__INIT;
	size_t length;

	packet->has_trusted_packet_sequence_id = 1;
	packet->trusted_packet_sequence_id = p->traces;
	trace.n_packet = 1;
	trace.packet = &packet;
	length = perfetto__trace__get_packed_size(&trace);
	if (length > p->room) {
		p->room = 2 * length;
		p->packed = xrealloc(p->packed, p->room, 1);
	}
	perfetto__trace__pack(&trace, p->packed);
	output_add(&x->out, p->packed, length);
}

static void put_event(const struct writing *w, uint64_t time_ns, Perfetto__TrackEvent *event)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;

	event->has_type = event->has_track_uuid = 1;
	packet.has_timestamp = 1;
	packet.timestamp = input_real_ns(w->in, time_ns);
	packet.track_event = event;
	put(w->x, &packet);
}

static void put_counter(const struct writing *w, unsigned device, enum track track,
			uint64_t time_ns, bytes level)
{
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

	event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_COUNTER;
	event.track_uuid = w->tracks[device] + track;
	event.has_counter_value = 1;
	event.counter_value = level;
	put_event(w, time_ns, &event);
}

static void put_slice(const struct writing *w, unsigned device, enum track track, const char *name,
		      uint64_t from_ns, uint64_t to_ns)
{
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

	event.track_uuid = w->tracks[device] + track;
	event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	event.name = (char *)name;
	put_event(w, from_ns, &event);
	event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	event.name = NULL;
	put_event(w, to_ns, &event);
}

static void put_track(struct export *x, uint64_t number, uint64_t parent, const char *name,
		      int is_counter)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__CounterDescriptor counter = PERFETTO__COUNTER_DESCRIPTOR__INIT;

	counter.has_unit = 1;
	counter.unit = PERFETTO__COUNTER_DESCRIPTOR__UNIT__UNIT_SIZE_BYTES;
	track.has_uuid = track.has_parent_uuid = 1;
	track.uuid = number;
	track.parent_uuid = parent;
	track.name = (char *)name;
	track.counter = is_counter ? &counter : NULL;
	packet.track_descriptor = &track;
	put(x, &packet);
}

static void put_process(struct export *x, const struct input *in, uint64_t number)
{
	const struct mt_header *h = &in->trace.header;
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ProcessDescriptor process = PERFETTO__PROCESS_DESCRIPTOR__INIT;
	char name[160];

	snprintf(name, sizeof(name), "rank %d on %.64s", rank_number(h->rank), h->host);
	process.has_pid = 1;
	process.pid = (int32_t)h->pid;
	process.process_name = name;
	track.has_uuid = 1;
	track.uuid = number;
	track.process = &process;
	packet.track_descriptor = &track;
	put(x, &packet);
}

static void put_tracks(struct writing *w)
{
	static const char *const names[TRACKS] = {
		[TRACK_ALLOCATED] = "allocated", [TRACK_RESERVED] = "reserved",
		[TRACK_USED] = "device",         [TRACK_STEPS] = "steps",
		[TRACK_PHASES] = "phases",       [TRACK_FAILURES] = "failed allocations",
	};
	struct perfetto *p = w->x->state;
	char device[32];

	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		if (!w->in->replay.device[i].seen)
			continue;
		w->tracks[i] = p->tracks + 1;
		p->tracks += TRACKS;
		snprintf(device, sizeof(device), "GPU %u", i);
		put_track(w->x, w->tracks[i], w->process, device, 0);
		for (enum track t = TRACK_ALLOCATED; t < TRACKS; t++)
			if (t != TRACK_USED || !trace_is_imported(&w->in->trace))
				put_track(w->x, w->tracks[i] + t, w->tracks[i], names[t],
					  t >= TRACK_ALLOCATED && t <= TRACK_USED);
	}
}

static void put_failure(const struct writing *w, const struct mt_record *r)
{
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;
	Perfetto__DebugAnnotation requested = PERFETTO__DEBUG_ANNOTATION__INIT;
	Perfetto__DebugAnnotation *all[] = { &requested };

	requested.name = (char *)"requested bytes";
	requested.has_int_value = 1;
	requested.int_value = r->bytes;
	event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT;
	event.track_uuid = w->tracks[r->device] + TRACK_FAILURES;
	event.name = (char *)"out of memory";
	event.n_debug_annotations = 1;
	event.debug_annotations = all;
	put_event(w, r->time_ns, &event);
}

/* An event of a slice, or an instant, with the name of the mark. */
static void put_mark(const struct writing *w, uint64_t track, Perfetto__TrackEvent__Type type,
		     const struct mt_record *r)
{
	const struct tables *t = &w->in->trace.tables;
	const struct stack *s = tables_stack(t, r->stack);
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;
	struct buf name = { 0 };

	if (s->frame_count)
		buf_add_clean(&name, tables_string(t, tables_frame(t, s->frames[0])->function));
	event.track_uuid = track;
	event.type = type;
	event.name = name.length ? name.text : NULL;
	put_event(w, r->time_ns, &event);
	buf_release(&name);
}

static uint64_t track_of_process(const struct writing *w, uint64_t *track, const char *name)
{
	struct perfetto *p = w->x->state;

	if (!*track) {
		*track = ++p->tracks;
		put_track(w->x, *track, w->process, name, 0);
	}
	return *track;
}

static void begin_phase(struct writing *w, const struct mt_record *r)
{
	for (size_t i = 0; i < MAX_LANES; i++)
		if (!w->phases[i]) {
			w->phases[i] = r->address;
			put_mark(w, track_of_process(w, &w->lanes[i], "named phases"),
				 PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, r);
			return;
		}
}

static void end_phase(struct writing *w, uint64_t phase, uint64_t time_ns)
{
	Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

	for (size_t i = 0; i < MAX_LANES; i++)
		if (phase && w->phases[i] == phase) {
			w->phases[i] = 0;
			event.track_uuid = w->lanes[i];
			event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END;
			put_event(w, time_ns, &event);
		}
}

static void on_mark(struct writing *w, const struct mt_record *r)
{
	if (r->kind == MT_PHASE_BEGIN)
		begin_phase(w, r);
	else if (r->kind == MT_PHASE_END)
		end_phase(w, r->address, r->time_ns);
	else if (r->kind == MT_MARK)
		put_mark(w, track_of_process(w, &w->moments, "moments"),
			 PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, r);
}

static void on_event(void *context, uint64_t sequence, const struct mt_record *r,
		     const struct mt_record *allocated)
{
	struct writing *w = context;

	(void)sequence;
	(void)allocated;
	if (event_layer(r->kind) == MT_LAYER_MARK)
		on_mark(w, r);
	if (r->device >= MT_MAX_DEVICES || !w->in->replay.device[r->device].seen)
		return;
	if (input_is_failure(w->in, r)) {
		put_failure(w, r);
	} else if (r->kind == MT_RESERVED) {
		put_counter(w, r->device, TRACK_RESERVED, r->time_ns, r->bytes);
	} else if (input_is_block(w->in, r)) {
		w->allocated[r->device] = bytes_add(w->allocated[r->device], r->bytes);
		put_counter(w, r->device, TRACK_ALLOCATED, r->time_ns, w->allocated[r->device]);
	}
}

/* The lowest, the highest and the last level of each bin, where the level changes. A bin's first
 * level counts among them: if that is the highest, the lowest came later. */
static void put_used(const struct writing *w, unsigned device)
{
	const struct timeline *t = w->in->replay.device[device].timeline;
	bytes level = -1; /* before the first point */

	if (trace_is_imported(&w->in->trace))
		return;
	for (size_t i = 0; t && i < t->used; i++) {
		const struct bin *b = &t->bins[i * t->curves + CURVE_DEVICE];
		const int falls = level == b->peak;
		const bytes levels[] = { falls ? b->peak : b->floor, falls ? b->floor : b->peak,
					 b->last };

		for (size_t k = 0; k < ARRAY_SIZE(levels); k++) {
			uint64_t part = (uint64_t)k << t->shift >> 2;

			if (levels[k] != level)
				put_counter(w, device, TRACK_USED, ((uint64_t)i << t->shift) + part,
					    levels[k]);
			level = levels[k];
		}
	}
}

/* A slice for each run of spans of one step, and of one phase of it. */
static void put_spans(const struct writing *w, unsigned device)
{
	const struct spans *s = &w->in->replay.device[device].spans;
	size_t step = 0, phase = 0; /* the first spans of the open slices */
	char name[32];

	for (size_t i = 1; i <= s->count; i++) {
		const struct span *was = &s->list[i - 1], *now = &s->list[i];
		int is_last = i == s->count;
		uint64_t end = is_last ? w->in->replay.last_time_ns : now->start_ns;

		if (is_last || now->phase != was->phase || now->step != was->step) {
			put_slice(w, device, TRACK_PHASES, phase_name((enum phase)was->phase),
				  s->list[phase].start_ns, end);
			phase = i;
		}
		if (is_last || span_step(now) != span_step(was)) {
			snprintf(name, sizeof(name), "step %u", span_step(was));
			if (span_step(was))
				put_slice(w, device, TRACK_STEPS, name, s->list[step].start_ns,
					  end);
			step = i;
		}
	}
}

static int begin(struct export *x, struct err *e)
{
	(void)e;
	x->state = xcalloc(1, sizeof(struct perfetto));
	return 0;
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	struct perfetto *p = x->state;
	struct writing w = { .x = x, .in = in };
	const struct event_sink sink = { .context = &w, .until = UINT64_MAX, .event = on_event };

	(void)e;
	w.process = ++p->tracks;
	p->traces++;
	put_process(x, in, w.process);
	put_tracks(&w);
	(void)events_visit(&in->trace, &sink); /* what a cut file still has */
	for (size_t i = 0; i < MAX_LANES; i++)
		end_phase(&w, w.phases[i], in->replay.last_time_ns);
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++)
		if (in->replay.device[i].seen) {
			put_used(&w, i);
			put_spans(&w, i);
		}
	return 0;
}

static int end(struct export *x, int failed, struct err *e)
{
	struct perfetto *p = x->state;

	(void)failed;
	(void)e;
	if (p)
		free(p->packed);
	free(p);
	return 0;
}

const struct export_writer export_perfetto = { .begin = begin, .add = add, .end = end };
