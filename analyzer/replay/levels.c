/* Adds up signed bytes. Tensor events, the bulk of a trace, need no look-up but that of their
 * stack's flags; accounting.c handles the other events. */
#include "replay/levels.h"

#include "attribution/attribution.h"
#include "replay/accounting.h"
#include "replay/marks.h"
#include "replay/peaks.h"
#include "trace/event.h"
#include "trace/visit.h"

#include <stdlib.h>
#include <string.h>

struct levels_pass {
	struct replay *replay;
	const struct tables *tables;
	const struct assumptions *assumptions;
	const struct replay_options *options;
	struct account account;
};

static void levels_of(const struct device *d, bytes levels[CURVES])
{
	levels[CURVE_ALLOCATED] = d->now.allocated;
	levels[CURVE_RESERVED] = d->now.reserved;
	levels[CURVE_DEVICE] = moment_device(&d->now);
}

/* To be called before the levels change at `time`. */
static inline void advance(struct device *d, uint64_t time)
{
	bytes levels[CURVES];

	if (__builtin_expect(!timeline_is_due(d->timeline, time), 1))
		return;
	levels_of(d, levels);
	timeline_advance(d->timeline, time, levels);
}

static void advance_owners(struct device *d, uint64_t time)
{
	bytes levels[OWNERS];

	if (!timeline_is_due(d->owner_timeline, time))
		return;
	account_owners(d, levels);
	timeline_advance(d->owner_timeline, time, levels);
}

static void plot_owners(struct device *d)
{
	bytes levels[OWNERS];

	d->plot_due = 0;
	account_owners(d, levels);
	for (unsigned o = 0; o < OWNERS; o++)
		timeline_record(d->owner_timeline, o, levels[o]);
}

static void add_peak(bytes *level, bytes *peak, bytes delta)
{
	account_add(level, delta);
	if (*level > *peak)
		*peak = *level;
}

static inline void note_alloc(struct device *d, const struct mt_record *r)
{
	struct failure *f;

	if (__builtin_expect(!d->failure_count, 1))
		return;
	f = &d->failures[d->failure_count - 1];
	f->later_allocs++;
	account_add(&f->later_bytes, r->bytes);
	d->last_failure_open = 0;
}

/* Adds an event to the spans; d->now.allocated is the level after it. It runs for each event of the
 * tensor layer: a call would cost a tenth of the pass. */
__attribute__((always_inline)) static inline void note_activity(const struct levels_pass *c,
								struct device *d,
								const struct mt_record *r,
								int is_alloc)
{
	const struct stack_info *stack = tables_stack_info(c->tables, r->stack);
	enum activity a = (enum activity)stack->activity[c->tables->thread_flags[r->thread] & 3];
	uint32_t caller = 0;

	if (a == ACTIVITY_MODEL || a == ACTIVITY_EVALUATION || a == ACTIVITY_OPTIMIZER ||
	    a == ACTIVITY_ZERO_GRAD)
		caller = stack->caller_hash;
	else if (a == ACTIVITY_MAIN && !spans_have(&d->spans, ACTIVITY_BACKWARD))
		caller = r->stack;
	spans_add(&d->spans, &(struct span_event){ .time_ns = r->time_ns,
						   .address = r->address,
						   .level = d->now.allocated,
						   .caller = caller,
						   .stack = r->stack,
						   .activity = a,
						   .is_alloc = is_alloc });
}

static void record_failure(const struct levels_pass *c, struct device *d, struct position at,
			   const struct mt_record *r)
{
	struct failure f = {
		.when = peaks_moment(d, at, r),
		.from_runtime = r->kind == MT_DEVICE_FAIL,
		.stack = r->stack,
		.requested = r->bytes,
		.segment = account_refused(d, c->tables, r),
		.free = r->address,
		.largest_free = -1,
		.is_outside = d->is_outside,
	};

	if (!account_is_failure(d, c->tables, r))
		return;
	if (!d->failures)
		d->failures = xcalloc(REPLAY_MAX_OOMS, sizeof(*d->failures));
	account_owners(d, f.owners);
	/* The runtime and then PyTorch reported the same failure. */
	if (!f.from_runtime && d->last_failure_open &&
	    d->failures[d->failure_count - 1].from_runtime && d->counted_from_runtime)
		d->failure_count--;
	else
		d->failures_seen++;
	if (d->failure_count == REPLAY_MAX_OOMS)
		d->failure_count--;
	d->failures[d->failure_count++] = f;
	d->last_failure_open = 1;
	/* Phase and step are those of the request, though nothing was allocated. */
	note_activity(c, d, r, 1);
	d->spans.list[d->spans.count - 1].failed = 1;
}

static void begin_device(struct device *d, int counted_from_runtime)
{
	d->seen = 1;
	d->counted_from_runtime = counted_from_runtime;
	d->timeline = timeline_new(CURVES);
	d->owner_timeline = timeline_new(OWNERS);
}

static inline struct device *device_of(struct replay *r, unsigned ordinal,
				       const struct assumptions *a)
{
	struct device *d;

	if (ordinal >= MT_MAX_DEVICES) {
		*(ordinal == MT_NO_DEVICE ? &r->without_device : &r->damaged) += 1;
		return NULL;
	}
	d = &r->device[ordinal];
	if (__builtin_expect(!d->seen, 0))
		begin_device(d, a->counted_from_runtime[ordinal]);
	return d;
}

static void record_comm(struct levels_pass *c, struct device *d, struct position at,
			const struct mt_record *r)
{
	account_comm(&c->account, d, r,
		     c->account.trace->segments[at.segment].first_sequence + at.record - 1);
	/* The sample of the peak includes the communicator, whose record follows it. */
	if (moment_device(&d->now) == moment_device(&d->device_peak))
		account_owners(d, d->owners_at_device_peak);
}

/* ALLOC and FREE of all layers but tensors. Returns whether some owner's bytes changed. */
static int record_other_memory(struct levels_pass *c, struct device *d, struct position at,
			       const struct mt_record *r)
{
	unsigned stack = tables_stack_flags(c->tables, r->stack), alloc = event_alloc_kind(r->kind);
	int change;

	d->other_events++;
	switch (event_layer(r->kind)) {
	case MT_LAYER_MAPPED:
		return 0;
	case MT_LAYER_ALIAS:
		add_peak(&d->imported, &d->imported_peak, r->bytes);
		return 0;
	case MT_LAYER_MANAGED:
		add_peak(&d->managed, &d->managed_peak, r->bytes);
		return 0;
	case MT_LAYER_COMM:
		record_comm(c, d, at, r);
		return 1;
	}
	if (alloc == r->kind && stack & STACK_PYTORCH && account_is_segment_kind(alloc))
		d->pytorch_allocs++;
	change = account_runtime(&c->account, d, r);
	if (change & ACCOUNT_ALLOCATED) {
		note_activity(c, d, r, alloc == r->kind);
		if (alloc == r->kind)
			note_alloc(d, r);
		peaks_check_allocated(d, at, r);
		timeline_record(d->timeline, CURVE_ALLOCATED, d->now.allocated);
	}
	return change & ACCOUNT_OWNERS;
}

static void record_other_kinds(struct levels_pass *c, struct device *d, struct position at,
			       const struct mt_record *r)
{
	/* The bytes of a sample may be those of the communicator that the next event creates, so
	 * they are plotted after that. */
	if (r->kind != MT_COMM_INIT || !d->plot_due) {
		if (d->plot_due)
			plot_owners(d);
		advance_owners(d, r->time_ns);
	}
	switch (r->kind) {
	case MT_RESERVED:
	case MT_POOL_RESERVED:
	case MT_GRAPH_RESERVED:
		account_level(d, r);
		break;
	case MT_DEVICE_SAMPLE:
		d->sample_total = r->bytes;
		d->sample_free = r->address;
		account_sample(d);
		break;
	case MT_TENSOR_OOM:
	case MT_DEVICE_FAIL:
		d->oom_records +=
			r->kind == (d->counted_from_runtime ? MT_DEVICE_FAIL : MT_TENSOR_OOM);
		record_failure(c, d, at, r);
		return;
	default:
		if (!record_other_memory(c, d, at, r))
			return;
	}
	peaks_check_device(d, at, r);
	if (d->spans.count) {
		d->spans.list[d->spans.count - 1].reserved = d->now.reserved;
		d->spans.list[d->spans.count - 1].device = moment_device(&d->now);
	}
	timeline_record(d->timeline, CURVE_RESERVED, d->now.reserved);
	timeline_record(d->timeline, CURVE_DEVICE, moment_device(&d->now));
	if (r->kind == MT_DEVICE_SAMPLE) {
		d->plot_due = 1;
	} else {
		advance_owners(d, r->time_ns);
		plot_owners(d);
	}
}

static void record_tensor(struct levels_pass *c, struct device *d, struct position at,
			  const struct mt_record *r)
{
	int is_alloc = r->kind == MT_TENSOR_ALLOC;

	if (is_alloc)
		d->tensor_allocs++;
	else
		d->tensor_frees++;
	if (d->counted_from_runtime)
		return;
	account_add(&d->now.allocated, r->bytes);
	note_activity(c, d, r, is_alloc);
	if (is_alloc) {
		note_alloc(d, r);
		peaks_check_allocated(d, at, r);
	}
	timeline_record(d->timeline, CURVE_ALLOCATED, d->now.allocated);
}

/* Host memory; a handle of physical memory can be of the host too. */
static int is_host(const struct mt_record *r)
{
	return event_layer(r->kind) == MT_LAYER_HOST ||
	       (r->device == MT_NO_DEVICE && event_alloc_kind(r->kind) == MT_PHYSICAL_ALLOC);
}

static void record_host(struct host *h, const struct mt_record *r)
{
	if (event_alloc_kind(r->kind) == MT_HOST_REGISTER)
		add_peak(&h->registered, &h->registered_peak, r->bytes);
	else
		add_peak(&h->pinned, &h->pinned_peak, r->bytes);
}

/* A phase whose peak is wanted begins with the bytes that are allocated already. */
static void record_mark(struct levels_pass *c, struct position at, const struct mt_record *r)
{
	marks_event(c->replay, c->tables, c->options->phase, r);
	for (int i = 0; c->options->phase && i < MT_MAX_DEVICES; i++) {
		if (!c->replay->device[i].seen)
			continue;
		peaks_check_allocated(&c->replay->device[i], at, r);
		peaks_check_device(&c->replay->device[i], at, r);
	}
}

/* An event that is not of the tensor layer. Returns whether it is of a device. */
static int record_elsewhere(struct levels_pass *c, struct position at, const struct mt_record *r)
{
	if (event_layer(r->kind) == MT_LAYER_MARK) {
		record_mark(c, at, r);
		return 0;
	}
	if (event_layer(r->kind) == MT_LAYER_NODE)
		return 0;
	if (is_host(r)) {
		c->replay->host_events++;
		record_host(&c->replay->host, r);
		return 0;
	}
	return r->device != MT_NO_DEVICE || event_layer(r->kind) != MT_LAYER_MAPPED;
}

static void record_event(struct levels_pass *c, struct position at, const struct mt_record *r)
{
	struct replay *replay = c->replay;
	int is_tensor = r->kind == MT_TENSOR_ALLOC || r->kind == MT_TENSOR_FREE;
	struct device *d;

	if (!is_tensor && !event_layer(r->kind)) {
		*(r->kind ? &replay->unknown_kinds : &replay->unwritten) += 1;
		return;
	}
	if (!record_is_valid(r)) {
		replay->damaged++;
		return;
	}
	if (r->time_ns > replay->last_time_ns)
		replay->last_time_ns = r->time_ns;
	if (!is_tensor && !record_elsewhere(c, at, r))
		return;
	d = device_of(replay, r->device, c->assumptions);
	if (!d)
		return;
	advance(d, r->time_ns);
	if (is_tensor)
		record_tensor(c, d, at, r);
	else
		record_other_kinds(c, d, at, r);
	if (c->options->observer)
		c->options->observer->event(c->options->observer->context, d, r);
}

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		record_event(context, (struct position){ segment, first + i + 1 }, &records[i]);
}

static void on_keyframe_begin(void *context)
{
	struct levels_pass *c = context;

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &c->replay->device[i];

		if (d->seen) {
			spans_begin(&d->spans, c->replay->last_time_ns, ACTIVITY_GAP, 0, 0);
			advance(d, c->replay->last_time_ns);
			if (d->plot_due)
				plot_owners(d);
			advance_owners(d, c->replay->last_time_ns);
		}
	}
	marks_gap(c->replay);
	account_keyframe_begin(&c->account, c->replay);
	if (c->options->observer)
		c->options->observer->gap(c->options->observer->context);
}

static void record_keyframe(struct levels_pass *c, const struct mt_record *r)
{
	unsigned alloc = event_alloc_kind(r->kind), layer = event_layer(r->kind);
	struct device *d;

	if (!layer || !record_is_valid(r) || layer == MT_LAYER_MAPPED || layer == MT_LAYER_MARK ||
	    layer == MT_LAYER_NODE)
		return;
	if (is_host(r)) {
		record_host(&c->replay->host, r);
		return;
	}
	d = device_of(c->replay, r->device, c->assumptions);
	if (!d)
		return;
	if (r->kind == MT_RESERVED || r->kind == MT_POOL_RESERVED || r->kind == MT_GRAPH_RESERVED) {
		account_level(d, r);
	} else if (r->kind == MT_DEVICE_SAMPLE && !d->sampled) {
		d->sample_total = r->bytes;
		d->sample_free = r->address;
	} else if (r->kind == MT_TENSOR_ALLOC && !d->counted_from_runtime) {
		account_add(&d->now.allocated, r->bytes);
	} else if (r->kind == MT_ALIAS_OPEN) {
		add_peak(&d->imported, &d->imported_peak, r->bytes);
	} else if (r->kind == MT_MANAGED_ALLOC) {
		add_peak(&d->managed, &d->managed_peak, r->bytes);
	} else if (r->kind == MT_COMM_INIT) {
		account_keyframe_comm(&c->account, d, r, c->replay->last_time_ns);
	} else if (alloc == r->kind && r->kind != MT_TENSOR_ALLOC) {
		if (account_is_segment_kind(alloc) &&
		    tables_stack_flags(c->tables, r->stack) & STACK_PYTORCH)
			d->pytorch_allocs++;
		account_runtime(&c->account, d, r);
	}
}

/* A keyframe restores levels. Its records are no events, so none is counted. */
static void on_keyframe(void *context, const struct mt_record *records, size_t count)
{
	const struct levels_pass *c = context;
	const struct replay_observer *o = c->options->observer;

	marks_keyframe(c->replay, records, count);
	for (size_t i = 0; i < count; i++) {
		record_keyframe(context, &records[i]);
		if (o && event_layer(records[i].kind) && record_is_valid(&records[i]))
			o->restored(o->context, &records[i]);
	}
}

static void on_keyframe_end(void *context, uint64_t segment)
{
	struct levels_pass *c = context;
	struct mt_record here = { .time_ns = c->replay->last_time_ns, .thread = MT_NO_THREAD };

	marks_keyframe_end(c->replay, c->tables, c->options->phase);
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &c->replay->device[i];
		bytes levels[CURVES];

		if (!d->seen)
			continue;
		account_keyframe_end(&c->account, d, c->replay->last_time_ns);
		if (!d->sampled)
			account_sample(d);
		peaks_check_allocated(d, (struct position){ segment, 0 }, &here);
		peaks_check_device(d, (struct position){ segment, 0 }, &here);
		advance(d, here.time_ns);
		advance_owners(d, here.time_ns);
		levels_of(d, levels);
		for (unsigned k = 0; k < CURVES; k++)
			timeline_record(d->timeline, k, levels[k]);
		plot_owners(d);
		if (c->options->observer)
			c->options->observer->gap_end(c->options->observer->context, d, i,
						      here.time_ns);
	}
}

static void on_progress(void *context, double part)
{
	struct levels_pass *c = context;

	c->options->progress(c->options->context, part / 2);
}

void replay_levels(struct replay *r, const struct trace *t, const struct assumptions *a,
		   const struct replay_options *o)
{
	struct levels_pass c = { .replay = r,
				 .tables = &t->tables,
				 .assumptions = a,
				 .options = o,
				 .account = { .trace = t } };
	struct record_visitor w = {
		.context = &c,
		.keyframe_begin = on_keyframe_begin,
		.keyframe = on_keyframe,
		.keyframe_end = on_keyframe_end,
		.records = on_records,
		.progress = o->progress ? on_progress : NULL,
	};

	live_set_init(&c.account.live);
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		r->device[i].is_outside = o->phase != NULL;
	if (o->observer)
		o->observer->begin(o->observer->context);
	r->truncated = trace_visit(t, &w) < 0;
	live_set_release(&c.account.live);
	marks_end(r);
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &r->device[i];

		if (!d->seen)
			continue;
		advance(d, r->last_time_ns);
		if (d->plot_due)
			plot_owners(d);
		advance_owners(d, r->last_time_ns);
		d->now.time_ns = r->last_time_ns;
	}
}
