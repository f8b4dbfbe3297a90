/* The third walk: levels a step, what would be left without something, and the live set at the
 * moment. */
#include "metrics/metrics_pass.h"

#include <stdlib.h>
#include <string.h>

static unsigned taken_by(const struct watched *w, uint64_t marks, int autograd, bytes size, int new)
{
	unsigned taken = 0;

	if (size < MEASURE_LEAST)
		return 0;
#define TAKE(what, when) taken |= (when) ? 1u << WITHOUT_##what : 0
	TAKE(LOGITS, measure_is_logits(w, marks, size));
	TAKE(ATTENTION, measure_is_score(w, marks, autograd, size));
	TAKE(TEMPORARIES, marks & MARKED(OPTIMIZER) && !(marks & MARKED(STATE)));
	TAKE(CLIPPING, marks & MARKED(CLIP));
	TAKE(LOADED, marks & MARKED(LOAD));
	TAKE(SAVING, marks & MARKED(SAVE));
	TAKE(NEW_RUN, new);
#undef TAKE
	return taken;
}

/* The most that would be left without each, at the top of a rise. */
static void note_best(struct watched *w, bytes top)
{
	bytes least = INT64_MAX;

	for (unsigned k = 0; k < WITHOUTS; k++) {
		bytes left = top - w->level[k];

		w->best[k] = left > w->best[k] ? left : w->best[k];
		least = w->best[k] < least ? w->best[k] : least;
	}
	w->least_best = least;
}

static inline void note_top(struct watched *w)
{
	bytes top = w->allocated;

	w->rising = 0;
	w->now.peak = top > w->now.peak ? top : w->now.peak;
	/* Levels are never negative: a top below all of them changes none. */
	if (top > w->least_best)
		note_best(w, top);
}

static void end_step(struct watched *w)
{
	w->now.reserved = w->reserved;
	w->now.outside = w->outside;
	if (w->count < MEASURE_STEPS) {
		w->list = grow(w->list, w->count, &w->room, sizeof(*w->list));
		w->list[w->count++] = w->now;
	}
	w->now = (struct step_levels){ .floor = w->allocated };
}

static void begin_run(struct watched *w)
{
	w->run++;
	w->run_born = 0;
	w->run_is_open = 1;
	w->level[WITHOUT_OLD_GRADIENTS] = w->backward_seen ? w->autograd_live : 0;
}

static int is_caller(const struct callers *c, uint32_t caller)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->list[i] == caller)
			return 1;
	return 0;
}

static void add_caller(struct callers *c, uint32_t caller)
{
	if (!is_caller(c, caller) && c->count < MEASURE_CALLERS)
		c->list[c->count++] = caller;
}

/* A next span. A forward pass from where none came that a backward pass followed is not the
 * training's. */
static void enter(struct watched *w, const struct span *s)
{
	w->phase = (enum phase)s->phase;
	if (s->activity == ACTIVITY_MODEL) {
		add_caller(&w->pending, s->caller);
		w->run_is_new = w->trained.count && !is_caller(&w->trained, s->caller);
	}
	if (w->phase != PHASE_BACKWARD)
		return;
	for (size_t i = 0; i < w->pending.count; i++)
		add_caller(&w->trained, w->pending.list[i]);
	w->pending.count = 0;
	w->backward_seen = 1;
	w->run_is_new = 0;
}

/* Step, phase and run of an event of the tensor layer. */
static void follow(struct watched *w, uint64_t time, int is_alloc)
{
	const struct spans *all = &w->device->spans;
	uint32_t step;

	if (time >= w->next_span_ns && all->count) {
		if (!w->next_span_ns)
			enter(w, &all->list[0]);
		while (w->span + 1 < all->count && all->list[w->span + 1].start_ns <= time)
			enter(w, &all->list[++w->span]);
		w->next_span_ns =
			w->span + 1 < all->count ? all->list[w->span + 1].start_ns : UINT64_MAX;
	}
	step = all->count && all->list[w->span].step ? all->list[w->span].step - 1 : w->step;
	if (step != w->step) {
		if (w->rising)
			note_top(w);
		end_step(w);
		w->step = step;
	}
	if (w->phase == PHASE_BACKWARD || w->phase == PHASE_OPTIMIZER)
		w->run_is_open = 0;
	else if (is_alloc && (!w->run_is_open || (w->run <= 1 && w->phase != PHASE_SETUP)))
		begin_run(w);
}

/* Is what is made now made for no backward pass? */
static int is_new(const struct watched *w)
{
	return w->run_is_open && w->backward_seen &&
	       (w->phase == PHASE_EVALUATION || w->run_is_new);
}

static void take_place(const struct measuring *p, struct watched *w, const struct mt_record *r)
{
	struct place_levels *l;

	if (!r->place || r->place >= p->tables->place_count)
		return;
	l = &w->places[r->place];
	if (l->last_step != w->step + 1) {
		l->before = l->now > l->before ? l->now : l->before;
		l->held_before = l->held > l->held_before ? l->held : l->held_before;
		l->now = l->held = 0;
		l->last_step = w->step + 1;
	}
	l->now = r->bytes > l->now ? r->bytes : l->now;
	l->live = bytes_add(l->live, r->bytes);
	l->held = l->live > l->held ? l->live : l->held;
	if (!is_new(w))
		return;
	if (l->run != w->run) {
		l->run = w->run;
		l->growths = 0;
		l->top = 0;
	}
	l->growths += r->bytes > l->top;
	l->top = r->bytes > l->top ? r->bytes : INT64_MAX;
}

/* Small blocks count in the level alone: they cost a look-up each, and are no cause of anything. */
static void take_small(struct watched *w, const struct mt_record *r)
{
	if (r->bytes > 0)
		w->rising = 1;
	else if (w->rising)
		note_top(w);
	w->allocated = bytes_add(w->allocated, r->bytes);
	w->now.floor = w->allocated < w->now.floor ? w->allocated : w->now.floor;
}

static void take_alloc(struct measuring *p, struct watched *w, const struct mt_record *r)
{
	unsigned thread = p->tables->thread_flags[r->thread];
	int autograd = (thread & THREAD_AUTOGRAD) != 0;
	uint64_t marks = p->marks[r->place < p->tables->place_count ? r->place : 0];
	union {
		struct birth birth;
		uint64_t time;
	} u = { .birth = { .run = w->run,
			   .step = (uint16_t)w->step,
			   .taken = (uint16_t)taken_by(w, marks, autograd, r->bytes, is_new(w)) } };
	struct mt_record kept = *r;

	take_place(p, w, r);
	w->allocated = bytes_add(w->allocated, r->bytes);
	w->run_born = bytes_add(w->run_born, r->bytes);
	w->autograd_live = autograd ? bytes_add(w->autograd_live, r->bytes) : w->autograd_live;
	for (unsigned k = 0, bits = u.birth.taken; bits; k++, bits >>= 1)
		w->level[k] = bits & 1 ? bytes_add(w->level[k], r->bytes) : w->level[k];
	w->m->marks |= w->is_past ? 0 : marks;
	w->rising = 1;
	kept.time_ns = u.time;
	/* The scene is past: only what a level counts is looked up again. */
	if (!w->is_past || autograd || u.birth.taken)
		live_add(&p->live, &kept);
}

static void take_free(struct measuring *p, struct watched *w, const struct mt_record *r)
{
	struct mt_record was;
	struct birth birth;

	if (w->rising)
		note_top(w);
	w->allocated = bytes_add(w->allocated, r->bytes);
	w->now.floor = w->allocated < w->now.floor ? w->allocated : w->now.floor;
	if (!live_take(&p->live, MT_TENSOR_ALLOC, r->address, &was))
		return;
	birth = birth_of(&was);
	if (was.place < p->tables->place_count)
		w->places[was.place].live = bytes_add(w->places[was.place].live, -was.bytes);
	if (p->tables->thread_flags[was.thread] & THREAD_AUTOGRAD) {
		w->autograd_live = bytes_add(w->autograd_live, -was.bytes);
		if (w->level[WITHOUT_OLD_GRADIENTS] && birth.run < w->run)
			w->level[WITHOUT_OLD_GRADIENTS] -=
				was.bytes < w->level[WITHOUT_OLD_GRADIENTS]
					? was.bytes
					: w->level[WITHOUT_OLD_GRADIENTS];
	}
	for (unsigned k = 0, bits = birth.taken; bits; k++, bits >>= 1)
		w->level[k] = bits & 1 ? bytes_add(w->level[k], -was.bytes) : w->level[k];
}

static int is_segment(unsigned kind)
{
	return kind == MT_DEVICE_ALLOC || kind == MT_MAP;
}

/* Memory of the device that is no tensor: PyTorch's segments, and others' allocations. */
static void take_other(struct measuring *p, struct watched *w, const struct mt_record *r)
{
	unsigned alloc = walk_alloc_kind(r->kind), layer = walk_layer(r->kind);
	int ours = (tables_place_flags(p->tables, r->place) & PLACE_PYTORCH) != 0;
	uint64_t marks = p->marks[r->place < p->tables->place_count ? r->place : 0];

	if (r->kind == MT_RESERVED)
		w->reserved = r->bytes;
	if (r->kind == MT_DEVICE_FAIL && ours)
		w->retry_pending = 1;
	if (r->kind == MT_TENSOR_OOM)
		w->retry_pending = 0;
	if (!alloc)
		return;
	if (is_segment(alloc) && ours) {
		w->now.calls++;
		if (alloc == r->kind) {
			w->now.retries += w->retry_pending;
			w->retry_pending = 0;
		} else if (marks & MARKED(EMPTY) && !(marks & MARKED(GRAPH))) {
			w->now.emptied = bytes_add(w->now.emptied, -r->bytes);
		}
	}
	w->m->graph_captured |= (marks & MARKED(GRAPH)) != 0;
	if (layer != MT_LAYER_DEVICE && layer != MT_LAYER_POOL)
		return;
	if (alloc == r->kind && !ours && live_add(&p->live, r)) {
		w->outside = bytes_add(w->outside, r->bytes);
	} else if (alloc != r->kind) {
		struct mt_record was;

		if (live_take(&p->live, alloc, r->address, &was))
			w->outside = bytes_add(w->outside, -was.bytes);
	}
}

static void take_host(struct measuring *p, const struct mt_record *r)
{
	if (r->kind == MT_HOST_FREE) {
		struct mt_record was;

		if (live_take(&p->live, MT_HOST_ALLOC, r->address, &was) &&
		    tables_place_owner(p->tables, was.place) == OWNER_NCCL)
			p->nccl_pinned -= was.bytes;
		return;
	}
	if (r->kind != MT_HOST_ALLOC || !live_add(&p->live, r))
		return;
	p->pinned = bytes_add(p->pinned, r->bytes);
	if (r->bytes >= 1 << 20 && !(r->bytes & (r->bytes - 1)))
		p->pinned_powers = bytes_add(p->pinned_powers, r->bytes);
	if (tables_place_owner(p->tables, r->place) == OWNER_NCCL) {
		p->nccl_pinned = bytes_add(p->nccl_pinned, r->bytes);
		if (p->nccl_pinned > p->nccl_pinned_peak)
			p->nccl_pinned_peak = p->nccl_pinned;
	}
}

/* The request counts as if it had been granted. */
static void grant(struct measuring *p, struct watched *w)
{
	const struct failure *f = w->failure;
	uint32_t place = f->place < p->tables->place_count ? f->place : MT_NO_PLACE;
	unsigned taken = taken_by(w, p->marks[place], w->phase == PHASE_BACKWARD && !place,
				  f->requested, is_new(w));
	struct watched granted = *w;

	granted.allocated = bytes_add(granted.allocated, f->requested);
	for (unsigned k = 0; k < WITHOUTS; k++)
		granted.level[k] = taken & 1u << k ? bytes_add(granted.level[k], f->requested)
						   : granted.level[k];
	note_top(&granted);
	memcpy(w->best, granted.best, sizeof(w->best));
	w->least_best = granted.least_best;
}

static void look(struct measuring *p, struct watched *w, unsigned device)
{
	w->is_past = 1;
	for (size_t i = 0; i < w->count; i++)
		w->peak_before =
			w->list[i].peak > w->peak_before ? w->list[i].peak : w->peak_before;
	if (w->failure)
		grant(p, w);
	measure_scene(p, device);
}

static void take(struct measuring *p, struct position at, const struct mt_record *r)
{
	struct watched *w = &p->watched[r->device < MT_MAX_DEVICES ? r->device : 0];

	if (!walk_layer(r->kind) || !walk_is_sound(r))
		return;
	if (walk_layer(r->kind) == MT_LAYER_HOST)
		take_host(p, r);
	if (r->device >= MT_MAX_DEVICES || !w->device)
		return;
	if (r->kind == MT_TENSOR_ALLOC || r->kind == MT_TENSOR_FREE) {
		if (w->device->stand_in)
			return;
		follow(w, r->time_ns, r->kind == MT_TENSOR_ALLOC);
		if (r->bytes < MEASURE_LEAST && r->bytes > -MEASURE_LEAST)
			take_small(w, r);
		else if (r->kind == MT_TENSOR_ALLOC)
			take_alloc(p, w, r);
		else
			take_free(p, w, r);
	} else {
		take_other(p, w, r);
	}
	if (!w->is_past && at.segment == w->moment.at.segment && at.record == w->moment.at.record)
		look(p, w, r->device);
}

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	struct measuring *p = context;

	for (size_t i = 0; i < count; i++) {
		if (i + 12 < count && (records[i + 12].bytes >= MEASURE_LEAST ||
				       records[i + 12].bytes <= -MEASURE_LEAST))
			live_prefetch(&p->live, walk_alloc_kind(records[i + 12].kind),
				      records[i + 12].address);
		take(p, (struct position){ segment, first + i + 1 }, &records[i]);
	}
}

static void on_restart(void *context)
{
	struct measuring *p = context;

	live_clear(&p->live);
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct watched *w = &p->watched[i];

		w->allocated = w->autograd_live = w->outside = 0;
		memset(w->level, 0, sizeof(w->level));
		for (size_t k = 0; w->places && k < p->tables->place_count; k++)
			w->places[k].live = 0;
	}
}

static void on_keyframe(void *context, const struct mt_record *records, size_t count)
{
	struct measuring *p = context;

	for (size_t i = 0; i < count; i++) {
		const struct mt_record *r = &records[i];
		struct watched *w = &p->watched[r->device < MT_MAX_DEVICES ? r->device : 0];

		if (r->device >= MT_MAX_DEVICES || !walk_layer(r->kind) || !walk_is_sound(r) ||
		    !w->device)
			continue;
		if (r->kind == MT_TENSOR_ALLOC && !w->device->stand_in)
			r->bytes < MEASURE_LEAST ? take_small(w, r) : take_alloc(p, w, r);
		else
			take_other(p, w, r);
	}
}

static void on_restarted(void *context, uint64_t segment)
{
	struct measuring *p = context;

	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct watched *w = &p->watched[i];

		if (w->device && !w->is_past && w->moment.at.segment == segment &&
		    !w->moment.at.record)
			look(p, w, i);
	}
}

/* The failure that ended the job, or the last one, or else the peak. */
static void choose_moment(struct watched *w)
{
	const struct device *d = w->device;

	w->failure = d->failure_count ? &d->failures[d->failure_count - 1] : NULL;
	w->moment = w->failure ? w->failure->when : d->peak;
}

static void start(struct measuring *p, struct measures *m, const struct replay *r)
{
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct watched *w = &p->watched[i];

		if (!r->device[i].seen)
			continue;
		m[i] = (struct measures){ 0 };
		w->device = &r->device[i];
		w->m = &m[i];
		w->places = xcalloc(p->tables->place_count + 1, sizeof(*w->places));
		choose_moment(w);
		measure_sizes(w, p, w->failure ? &w->failure->live : &w->device->at_peak);
	}
}

void measure_trace(struct measures m[MT_MAX_DEVICES], const struct trace *t, const struct replay *r)
{
	struct measuring p = { .trace = t, .tables = &t->tables };
	struct walker walker = { .context = &p,
				 .restart = on_restart,
				 .keyframe = on_keyframe,
				 .restarted = on_restarted,
				 .records = on_records };

	/* Of its own: measure_sizes adds to them. */
	p.marks = xcalloc(t->tables.place_count + 1, sizeof(*p.marks));
	for (size_t i = 1; i < t->tables.place_count; i++)
		p.marks[i] = tables_place_info(&t->tables, (uint32_t)i)->marks;
	live_init(&p.live);
	start(&p, m, r);
	walk(t, &walker);
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct watched *w = &p.watched[i];

		if (!w->device)
			continue;
		if (w->rising)
			note_top(w);
		end_step(w);
		measure_settings(&m[i], t);
		m[i].pinned = r->host.pinned_peak;
		m[i].pinned_powers = p.pinned ? p.pinned_powers * 100 / p.pinned : 0;
		m[i].nccl_pinned = p.nccl_pinned_peak;
		measure_steps(w);
		free(w->list);
		free(w->places);
	}
	live_release(&p.live);
	free(p.marks);
}
