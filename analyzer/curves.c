/* The first pass: levels, peaks, steps, failures. Signed bytes are added up; nothing is looked up
 * but flags. */
#include "walk.h"

#include <stdlib.h>

struct curves {
	struct replay *replay;
	const struct tables *tables;
	const struct assumptions *assumptions;
	const struct replay_options *options;
};

static void levels_of(const struct device *d, bytes levels[CURVES])
{
	levels[CURVE_ALLOCATED] = d->now.allocated;
	levels[CURVE_RESERVED] = d->now.reserved;
	levels[CURVE_DEVICE] = moment_device(&d->now);
}

static inline void plot(struct device *d, uint64_t time, enum curve c)
{
	bytes levels[CURVES];

	levels_of(d, levels);
	timeline_take(d->timeline, time, levels, c, levels[c]);
}

static struct moment moment_of(const struct device *d, struct position at,
			       const struct mt_record *r)
{
	struct moment m = d->now;

	m.at = at;
	m.time_ns = r->time_ns;
	m.thread = r->thread;
	m.step = d->steps.step;
	m.phase = d->steps.phase;
	return m;
}

static inline void check_allocated(struct device *d, struct position at, const struct mt_record *r)
{
	if (d->now.allocated > d->peak.allocated)
		d->peak = moment_of(d, at, r);
}

static void check_device(struct device *d, struct position at, const struct mt_record *r)
{
	if (d->now.reserved > d->reserved_peak)
		d->reserved_peak = d->now.reserved;
	if (moment_device(&d->now) > moment_device(&d->device_peak))
		d->device_peak = moment_of(d, at, r);
}

static void take_sample(struct device *d)
{
	bytes used;

	if (d->sample_total <= 0 || d->sample_free > (uint64_t)d->sample_total)
		return;
	d->total = d->sample_total;
	used = d->sample_total - (bytes)d->sample_free - d->now.reserved - d->now.other;
	d->now.untracked = used > 0 ? used : 0;
	if (!d->sampled)
		d->context = d->now.untracked;
	d->sampled = 1;
}

static void set_reserved(struct device *d)
{
	d->now.reserved = d->stand_in_pool + d->stand_in_device;
}

static inline void add(bytes *level, bytes delta)
{
	*level = bytes_add(*level, delta);
}

/*
 * DEVICE, POOL and MANAGED events move `other`, or what stands in for the allocator. Returns
 * whether it was the stand-in. With the stand-in, other modules' pool memory is already in the
 * pool's level and is not counted again.
 */
static int take_runtime(struct device *d, const struct mt_record *r, unsigned alloc_kind,
			unsigned place)
{
	if (!(place & PLACE_PYTORCH)) {
		if (!d->stand_in || alloc_kind != MT_POOL_ALLOC)
			add(&d->now.other, r->bytes);
		return 0;
	}
	if (!d->stand_in || alloc_kind == MT_MANAGED_ALLOC)
		return 0;
	add(&d->now.allocated, r->bytes);
	if (alloc_kind == MT_DEVICE_ALLOC) {
		add(&d->stand_in_device, r->bytes);
		set_reserved(d);
	}
	return 1;
}

static void take_level(struct device *d, const struct mt_record *r)
{
	if (r->kind == MT_RESERVED) {
		d->reserved_levels++;
		if (!d->stand_in)
			d->now.reserved = r->bytes;
	} else if (d->stand_in) {
		d->stand_in_pool = r->bytes;
		set_reserved(d);
	}
}

static inline void handed_out(struct device *d, const struct mt_record *r)
{
	struct failure *f;

	if (__builtin_expect(!d->failure_count, 1))
		return;
	f = &d->failures[d->failure_count - 1];
	f->later_allocs++;
	add(&f->later_bytes, r->bytes);
	d->last_failure_open = 0;
}

static void take_failure(const struct curves *c, struct device *d, struct position at,
			 const struct mt_record *r, unsigned place)
{
	struct steps attempt = d->steps;
	struct failure f = {
		.when = moment_of(d, at, r),
		.from_runtime = r->kind == MT_DEVICE_FAIL,
		.place = r->place,
		.requested = r->bytes,
		.free = r->address,
		.largest_free = -1,
	};

	/* Phase and step are the request's own: an allocation that did not come about. */
	steps_take(&attempt, c->tables->thread_flags[r->thread], place, 1);
	f.when.phase = attempt.phase;
	f.when.step = attempt.step;
	/*
	 * The caching allocator frees its cache and tries again when the runtime refuses: only what
	 * it reports itself is a failure of the job. Anyone else's refusal is one.
	 */
	if (f.from_runtime && !d->stand_in && (place & PLACE_PYTORCH || !r->place))
		return;
	if (!d->failures)
		d->failures = xcalloc(REPLAY_MAX_OOMS, sizeof(*d->failures));
	/* The same failure, told by the runtime and then by PyTorch. */
	if (!f.from_runtime && d->last_failure_open &&
	    d->failures[d->failure_count - 1].from_runtime && d->stand_in)
		d->failure_count--;
	else
		d->failures_seen++;
	if (d->failure_count == REPLAY_MAX_OOMS)
		d->failure_count--;
	d->failures[d->failure_count++] = f;
	d->last_failure_open = 1;
}

static struct device *device_of(struct replay *r, unsigned ordinal, const struct assumptions *a)
{
	struct device *d;

	if (ordinal >= MT_MAX_DEVICES) {
		*(ordinal == MT_NO_DEVICE ? &r->without_device : &r->damaged) += 1;
		return NULL;
	}
	d = &r->device[ordinal];
	if (!d->seen) {
		d->seen = 1;
		d->stand_in = a->stand_in[ordinal];
		d->timeline = xcalloc(1, sizeof(*d->timeline));
		steps_start(&d->steps, a->without_optimizer[ordinal]);
	}
	return d;
}

static void take_other_kinds(struct curves *c, struct device *d, struct position at,
			     const struct mt_record *r)
{
	unsigned place = tables_place_flags(c->tables, r->place), alloc = walk_alloc_kind(r->kind);

	switch (r->kind) {
	case MT_RESERVED:
	case MT_POOL_RESERVED:
		take_level(d, r);
		plot(d, r->time_ns, CURVE_RESERVED);
		break;
	case MT_DEVICE_SAMPLE:
		d->sample_total = r->bytes;
		d->sample_free = r->address;
		take_sample(d);
		break;
	case MT_TENSOR_OOM:
	case MT_DEVICE_FAIL:
		take_failure(c, d, at, r, place);
		return;
	default:
		d->events++;
		if (alloc == r->kind && place & PLACE_PYTORCH && alloc != MT_MANAGED_ALLOC)
			d->pytorch_allocs++;
		if (take_runtime(d, r, alloc, place)) {
			steps_take(&d->steps, c->tables->thread_flags[r->thread], place,
				   alloc == r->kind);
			if (alloc == r->kind)
				handed_out(d, r);
			check_allocated(d, at, r);
			plot(d, r->time_ns, CURVE_ALLOCATED);
			plot(d, r->time_ns, CURVE_RESERVED);
		}
	}
	check_device(d, at, r);
	plot(d, r->time_ns, CURVE_DEVICE);
}

static void take_tensor(struct curves *c, struct device *d, struct position at,
			const struct mt_record *r)
{
	int is_alloc = r->kind == MT_TENSOR_ALLOC;

	d->events++;
	d->tensor_allocs += is_alloc;
	d->tensor_frees += !is_alloc;
	if (d->stand_in)
		return;
	steps_take(&d->steps, c->tables->thread_flags[r->thread],
		   tables_place_flags(c->tables, r->place), is_alloc);
	add(&d->now.allocated, r->bytes);
	if (is_alloc) {
		handed_out(d, r);
		check_allocated(d, at, r);
	}
	plot(d, r->time_ns, CURVE_ALLOCATED);
}

static void take(struct curves *c, struct position at, const struct mt_record *r)
{
	struct replay *replay = c->replay;
	struct device *d;

	if (!r->kind) {
		replay->unwritten++;
		return;
	}
	if (r->kind > MT_DEVICE_SAMPLE) {
		replay->unknown_kinds++;
		return;
	}
	if (!walk_is_sound(r)) {
		replay->damaged++;
		return;
	}
	if (r->time_ns > replay->last_time_ns)
		replay->last_time_ns = r->time_ns;
	if (r->kind == MT_HOST_ALLOC || r->kind == MT_HOST_FREE) {
		replay->host_events++;
		return;
	}
	d = device_of(replay, r->device, c->assumptions);
	if (!d)
		return;
	if (r->kind == MT_TENSOR_ALLOC || r->kind == MT_TENSOR_FREE)
		take_tensor(c, d, at, r);
	else
		take_other_kinds(c, d, at, r);
}

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		take(context, (struct position){ segment, first + i + 1 }, &records[i]);
}

static void on_restart(void *context)
{
	struct curves *c = context;

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &c->replay->device[i];

		d->now.allocated = d->now.reserved = d->now.other = 0;
		d->stand_in_device = d->stand_in_pool = 0;
	}
}

/* The levels as they were; nothing happens here, so nothing is counted. */
static void on_keyframe(void *context, const struct mt_record *records, size_t count)
{
	struct curves *c = context;

	for (size_t i = 0; i < count; i++) {
		const struct mt_record *r = &records[i];
		unsigned alloc = walk_alloc_kind(r->kind);
		struct device *d;

		if (!r->kind || r->kind > MT_DEVICE_SAMPLE || !walk_is_sound(r) ||
		    alloc == MT_HOST_ALLOC)
			continue;
		d = device_of(c->replay, r->device, c->assumptions);
		if (!d)
			continue;
		if (r->kind == MT_RESERVED || r->kind == MT_POOL_RESERVED) {
			take_level(d, r);
		} else if (r->kind == MT_DEVICE_SAMPLE && !d->sampled) {
			d->sample_total = r->bytes;
			d->sample_free = r->address;
		} else if (r->kind == MT_TENSOR_ALLOC && !d->stand_in) {
			add(&d->now.allocated, r->bytes);
		} else if (alloc == r->kind && r->kind != MT_TENSOR_ALLOC) {
			d->pytorch_allocs +=
				(tables_place_flags(c->tables, r->place) & PLACE_PYTORCH) != 0;
			take_runtime(d, r, alloc, tables_place_flags(c->tables, r->place));
		}
	}
}

static void on_restarted(void *context, uint64_t segment)
{
	struct curves *c = context;
	struct mt_record here = { .time_ns = c->replay->last_time_ns, .thread = MT_NO_THREAD };

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &c->replay->device[i];

		if (!d->seen)
			continue;
		if (!d->sampled)
			take_sample(d);
		check_allocated(d, (struct position){ segment, 0 }, &here);
		check_device(d, (struct position){ segment, 0 }, &here);
		for (int k = 0; k < CURVES; k++)
			plot(d, here.time_ns, k);
	}
}

static void on_progress(void *context, double part)
{
	struct curves *c = context;

	c->options->progress(c->options->context, part / 2);
}

void curves_pass(struct replay *r, const struct trace *t, const struct assumptions *a,
		 const struct replay_options *o)
{
	struct curves c = { .replay = r, .tables = &t->tables, .assumptions = a, .options = o };
	struct walker w = {
		.context = &c,
		.restart = on_restart,
		.keyframe = on_keyframe,
		.restarted = on_restarted,
		.records = on_records,
		.progress = o->progress ? on_progress : NULL,
	};

	r->truncated = walk(t, &w) < 0;
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &r->device[i];

		d->now.step = d->steps.step;
		d->now.phase = d->steps.phase;
		d->now.time_ns = r->last_time_ns;
	}
}
