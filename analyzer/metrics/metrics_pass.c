#include "metrics/metrics_attention.h"
#include "metrics/metrics_config.h"
#include "metrics/metrics_counterfactual.h"
#include "metrics/metrics_inference.h"
#include "metrics/metrics_live.h"
#include "metrics/metrics_moment.h"
#include "metrics/metrics_pass.h"

#include "metrics/metrics_backward.h"
#include "metrics/metrics_host.h"
#include "metrics/metrics_models.h"
#include "metrics/metrics_replaced.h"
#include "metrics/metrics_sizes.h"
#include "metrics/metrics_spans.h"
#include "metrics/metrics_steps.h"

#include <stdlib.h>
#include <string.h>

#define PREFETCH 12 /* records ahead */

/* Is the current forward pass one that no backward pass follows? */
static int is_new(const struct device_pass *d)
{
	return d->run_is_open && d->backward_seen &&
	       (d->phase == PHASE_EVALUATION || d->run_is_new);
}

/* `new`: the block is of a forward pass that no backward pass follows. */
static void record_stack(const struct metrics_pass *p, struct device_pass *d,
			 const struct mt_record *r, int new)
{
	struct stack_levels *l;

	if (!r->stack || r->stack >= p->tables->stack_count)
		return;
	l = &d->stacks[r->stack];
	if (l->last_step != d->step + 1) {
		l->steps += !d->is_past;
		l->rises += !d->is_past && r->bytes > l->tallest && l->live;
		l->before = l->now > l->before ? l->now : l->before;
		l->held_before = l->held > l->held_before ? l->held : l->held_before;
		l->now = l->held = 0;
		l->last_step = d->step + 1;
	}
	l->first = l->blocks ? l->first : r->bytes;
	if (p->tags[r->stack] & TAGGED(EVALUATE) && l->named_run != d->run + 1) {
		evaluation_names_add(&d->pending_names, p->tables, r->stack);
		l->named_run = d->run + 1;
	}
	if (!d->is_past) {
		metrics_note_mode(d, r->bytes, p->tags[r->stack]);
		metrics_note_block(d, l, r);
	}
	l->now = r->bytes > l->now ? r->bytes : l->now;
	l->live = bytes_add(l->live, r->bytes);
	l->held = l->live > l->held ? l->live : l->held;
	if (!new)
		return;
	if (l->run != d->run) {
		l->run = d->run;
		l->growths = 0;
		l->top = 0;
	}
	l->growths += r->bytes > l->top;
	l->top = r->bytes > l->top ? r->bytes : INT64_MAX;
}

/* Small blocks count in `allocated` alone: each would cost a look-up, and none is a cause. */
static void record_small(struct device_pass *d, const struct mt_record *r)
{
	if (r->bytes > 0) {
		d->rising = 1;
		metrics_note_mode(d, r->bytes, 0);
	} else if (d->rising) {
		metrics_note_top(d);
	}
	d->allocated = bytes_add(d->allocated, r->bytes);
	d->now.floor = d->allocated < d->now.floor ? d->allocated : d->now.floor;
}

static void record_alloc(struct metrics_pass *p, struct device_pass *d, const struct mt_record *r)
{
	unsigned thread = p->tables->thread_flags[r->thread];
	int autograd = (thread & THREAD_AUTOGRAD) != 0, new = is_new(d);
	uint32_t stack = r->stack < p->tables->stack_count ? r->stack : MT_NO_STACK;
	unsigned nodes = p->grad_modes.threads[r->thread];
	unsigned removed_by = counterfactuals_of(p, d, stack, autograd, r->bytes, new) |
			      COUNTERFACTUAL(UNOPTIMIZED, metrics_is_needless(p, nodes, stack));
	union {
		struct block_tag tag;
		uint64_t time;
	} u = { .tag = { .run = d->run & 0xfffffff,
			 .nodes = nodes & 3,
			 .step = (uint16_t)d->step,
			 .removed_by = (uint16_t)(removed_by & 0x7fff),
			 .before_calls = !d->called && !d->backward_seen } };
	struct mt_record kept = *r;

	record_stack(p, d, r, new);
	d->allocated = bytes_add(d->allocated, r->bytes);
	d->run_born = bytes_add(d->run_born, r->bytes);
	d->autograd_live = autograd ? bytes_add(d->autograd_live, r->bytes) : d->autograd_live;
	counterfactuals_add(d, removed_by, r->bytes);
	if (!d->is_past) {
		d->m->tags |= p->tags[stack];
		p->grad_modes.stacks[stack] |= (uint8_t)(1 << u.tag.nodes);
	}
	d->rising = 1;
	kept.time_ns = u.time;
	/* Behind the moment, only blocks that a level counts are looked up again. */
	if (!d->is_past || autograd || removed_by)
		live_set_add(&p->live, &kept);
}

static void record_free(struct metrics_pass *p, struct device_pass *d, const struct mt_record *r)
{
	struct mt_record was;
	struct block_tag tag;

	if (d->rising)
		metrics_note_top(d);
	d->allocated = bytes_add(d->allocated, r->bytes);
	d->now.floor = d->allocated < d->now.floor ? d->allocated : d->now.floor;
	if (!live_set_take(&p->live, MT_TENSOR_ALLOC, r->address, &was))
		return;
	tag = tag_of(&was);
	if (d->latest)
		metrics_note_freed(d, &was);
	if (was.stack < p->tables->stack_count) {
		struct stack_levels *l = &d->stacks[was.stack];

		l->live = bytes_add(l->live, -was.bytes);
		if (!d->is_past) {
			l->freed++;
			l->outlived += tag.step != (uint16_t)d->step;
			l->dropped += d->run_is_open && tag.run == d->run;
		}
	}
	if (p->tables->thread_flags[was.thread] & THREAD_AUTOGRAD) {
		d->autograd_live = bytes_add(d->autograd_live, -was.bytes);
		if (d->level[WITHOUT_OLD_GRADIENTS] && tag.run < d->run)
			counterfactual_take(d, WITHOUT_OLD_GRADIENTS,
					    smaller_of(was.bytes, d->level[WITHOUT_OLD_GRADIENTS]));
	}
	counterfactuals_take(d, tag.removed_by, was.bytes);
}

/* Device memory outside of tensors: PyTorch's segments, and allocations of libraries. */
static void record_other(struct metrics_pass *p, struct device_pass *d, const struct mt_record *r)
{
	unsigned alloc = event_alloc_kind(r->kind), layer = event_layer(r->kind);
	int ours = (tables_stack_flags(p->tables, r->stack) & STACK_PYTORCH) != 0;
	stack_tags tags = p->tags[r->stack < p->tables->stack_count ? r->stack : 0];

	if (r->kind == MT_RESERVED)
		d->reserved = r->bytes;
	if (r->kind == MT_DEVICE_FAIL && ours)
		d->retry_pending = 1;
	if (r->kind == MT_TENSOR_OOM)
		d->retry_pending = 0;
	if (!alloc)
		return;
	if (event_is_segment(alloc) && ours) {
		d->now.calls++;
		if (alloc == r->kind) {
			d->now.retries += d->retry_pending;
			d->now.emptied = bytes_add(d->now.emptied, d->given_back);
			d->retry_pending = 0;
			d->given_back = 0;
		} else if (tags & TAGGED(EMPTY) && !(tags & TAGGED(GRAPH))) {
			add(&d->given_back, -r->bytes);
		}
	}
	d->m->graph_captured |= (tags & TAGGED(GRAPH)) != 0;
	if (layer != MT_LAYER_DEVICE && layer != MT_LAYER_POOL)
		return;
	if (alloc == r->kind && !ours && live_set_add(&p->live, r)) {
		d->outside = bytes_add(d->outside, r->bytes);
	} else if (alloc != r->kind) {
		struct mt_record was;

		if (live_set_take(&p->live, alloc, r->address, &was))
			d->outside = bytes_add(d->outside, -was.bytes);
	}
}

/* The failed request counts as if it had succeeded. */
static void grant_request(struct metrics_pass *p, struct device_pass *d)
{
	const struct failure *f = d->failure;
	uint32_t stack = f->stack < p->tables->stack_count ? f->stack : MT_NO_STACK;
	unsigned taken = counterfactuals_of(p, d, stack, d->phase == PHASE_BACKWARD && !stack,
					    f->requested, is_new(d));
	struct device_pass granted = *d;

	granted.allocated = bytes_add(granted.allocated, f->requested);
	counterfactuals_add(&granted, taken, f->requested);
	metrics_note_top(&granted);
	memcpy(d->best, granted.best, sizeof(d->best));
}

static void at_moment(struct metrics_pass *p, struct device_pass *d, unsigned device)
{
	/* The failed request may be the first of its step, in which no event lies before it. */
	if (d->failure && d->moment.step > d->step + 1)
		metrics_enter_time(p, d, d->moment.time_ns, 1);
	d->is_past = 1;
	for (size_t i = 0; i < d->count; i++)
		d->peak_before = larger_of(d->peak_before, d->list[i].peak);
	if (d->failure)
		grant_request(p, d);
	metrics_at_moment(p, device);
}

/* Enters the moments of the devices that are at a position. */
static void check_moments(struct metrics_pass *p, struct position at)
{
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct device_pass *d = &p->devices[i];

		if (d->device && !d->is_past && d->moment.at.segment == at.segment &&
		    d->moment.at.record == at.record)
			at_moment(p, d, i);
	}
}

/* How many of `count` records lie before or at the next moment of a device; all if none is. */
static size_t count_to_moment(const struct metrics_pass *p, struct position from, size_t count)
{
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		const struct device_pass *d = &p->devices[i];
		struct position at = d->moment.at;

		if (d->device && !d->is_past && at.segment == from.segment &&
		    at.record > from.record && at.record - from.record < count)
			count = (size_t)(at.record - from.record);
	}
	return count;
}

static void record_event(struct metrics_pass *p, const struct mt_record *r)
{
	unsigned layer = event_layer(r->kind);
	struct device_pass *d;

	if (!layer || !record_is_valid(r))
		return;
	if (layer == MT_LAYER_HOST)
		metrics_record_host(p, r);
	else if (r->kind == MT_GRAD_MODE)
		grad_modes_event(&p->grad_modes, r);
	else if (r->kind == MT_PARAMETER)
		metrics_note_parameter(p, r);
	if (r->device >= MT_MAX_DEVICES || !p->devices[r->device].device)
		return;
	d = &p->devices[r->device];
	if (r->kind != MT_TENSOR_ALLOC && r->kind != MT_TENSOR_FREE) {
		record_other(p, d, r);
	} else if (!d->device->counted_from_runtime) {
		metrics_enter_time(p, d, r->time_ns, r->kind == MT_TENSOR_ALLOC);
		if (!d->backward_seen && !d->is_past)
			metrics_note_converted(&d->converted, r->bytes);
		if (r->bytes < METRICS_MIN_BLOCK && r->bytes > -METRICS_MIN_BLOCK)
			record_small(d, r);
		else if (r->kind == MT_TENSOR_ALLOC)
			record_alloc(p, d, r);
		else
			record_free(p, d, r);
	}
}

static inline void prefetch(const struct metrics_pass *p, const struct mt_record *r)
{
	if (r->bytes >= METRICS_MIN_BLOCK || r->bytes <= -METRICS_MIN_BLOCK)
		live_set_prefetch(&p->live, event_alloc_kind(r->kind), r->address);
}

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	struct metrics_pass *p = context;

	for (size_t i = 0, end; i < count;) {
		end = i + count_to_moment(p, (struct position){ segment, first + i }, count - i);
		for (; i < end; i++) {
			if (i + PREFETCH < count)
				prefetch(p, &records[i + PREFETCH]);
			record_event(p, &records[i]);
		}
		check_moments(p, (struct position){ segment, first + i });
	}
}

static void on_keyframe_begin(void *context)
{
	struct metrics_pass *p = context;

	live_set_clear(&p->live);
	grad_modes_gap(&p->grad_modes);
	p->parameter_events |= 1u << MT_PARAMETER_UNKNOWN; /* events are missing here */
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct device_pass *d = &p->devices[i];

		d->allocated = d->autograd_live = d->outside = 0;
		memset(d->level, 0, sizeof(d->level));
		d->limit = 0;
		for (size_t k = 0; d->stacks && k < p->tables->stack_count; k++)
			d->stacks[k].live = 0;
	}
}

static void on_keyframe(void *context, const struct mt_record *records, size_t count)
{
	struct metrics_pass *p = context;

	for (size_t i = 0; i < count; i++) {
		const struct mt_record *r = &records[i];
		struct device_pass *d = &p->devices[r->device < MT_MAX_DEVICES ? r->device : 0];

		if (r->device >= MT_MAX_DEVICES || !event_layer(r->kind) || !record_is_valid(r) ||
		    !d->device)
			continue;
		if (r->kind == MT_TENSOR_ALLOC && !d->device->counted_from_runtime)
			r->bytes < METRICS_MIN_BLOCK ? record_small(d, r) : record_alloc(p, d, r);
		else
			record_other(p, d, r);
	}
}

static void on_keyframe_end(void *context, uint64_t segment)
{
	check_moments(context, (struct position){ segment, 0 });
}

/* The moment of a device is its last failed allocation, or the peak if none failed. */
static void start(struct metrics_pass *p, struct metrics *m, const struct replay *r)
{
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct device_pass *d = &p->devices[i];

		if (!r->device[i].seen)
			continue;
		m[i] = (struct metrics){ 0 };
		d->device = &r->device[i];
		d->m = &m[i];
		d->pinned = &p->pinned_live;
		d->stacks = xcalloc(p->tables->stack_count + 1, sizeof(*d->stacks));
		d->failure = d->device->failure_count
				     ? &d->device->failures[d->device->failure_count - 1]
				     : NULL;
		d->moment = d->failure ? d->failure->when : d->device->peak;
		metrics_tag_caches(p, d->failure ? &d->failure->live : &d->device->at_peak);
		metrics_tag_attention(p, d->failure,
				      d->failure ? &d->failure->live : &d->device->at_peak);
		metrics_find_sizes(d, p, d->failure ? &d->failure->live : &d->device->at_peak);
		metrics_find_huge(d, p, d->failure ? &d->failure->live : &d->device->at_peak);
	}
}

void metrics_compute(struct metrics m[MT_MAX_DEVICES], const struct trace *t,
		     const struct config *c, const struct replay *r, int measures_need)
{
	struct metrics_pass p = { .trace = t,
				  .tables = &t->tables,
				  .measures_need = measures_need };
	struct record_visitor visitor = { .context = &p,
					  .keyframe_begin = on_keyframe_begin,
					  .keyframe = on_keyframe,
					  .keyframe_end = on_keyframe_end,
					  .records = on_records };

	/* A copy: metrics_tag_attention(), metrics_find_sizes() and others add tags. */
	p.workspaces = workspace_sizes_of(&t->tables);
	p.pinned_by_stack = xcalloc(t->tables.stack_count + 1, sizeof(*p.pinned_by_stack));
	p.tags = xcalloc(t->tables.stack_count + 1, sizeof(*p.tags));
	for (size_t i = 1; i < t->tables.stack_count; i++)
		p.tags[i] = tables_stack_info(&t->tables, (uint32_t)i)->tags;
	p.removed_by = xcalloc(t->tables.stack_count + 1, sizeof(*p.removed_by));
	live_set_init(&p.live);
	grad_modes_init(&p.grad_modes, t->tables.stack_count);
	start(&p, m, r);
	counterfactuals_by_stack(&p);
	trace_visit(t, &visitor);
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		struct device_pass *d = &p.devices[i];

		if (!d->device)
			continue;
		if (d->rising)
			metrics_note_top(d);
		metrics_end_step(d);
		metrics_from_config(&m[i], t, c);
		m[i].pinned = r->host.pinned_peak;
		m[i].pinned_powers = p.pinned ? p.pinned_powers * 100 / p.pinned : 0;
		m[i].nccl_pinned = p.nccl_pinned_peak;
		m[i].pinned_stack = metrics_pinned_stack(&p);
		metrics_from_steps(d);
		free(d->list);
		free(d->stacks);
	}
	live_set_release(&p.live);
	grad_modes_release(&p.grad_modes);
	free(p.tags);
	free(p.removed_by);
	free(p.pinned_by_stack);
}
