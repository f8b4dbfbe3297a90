#include "replay/replay.h"

#include "attribution/attribution.h"
#include "attribution/steps.h"
#include "replay/levels.h"
#include "replay/live_blocks.h"

#include <stdlib.h>

/* Returns whether an assumption was wrong; if so, corrects it. */
static int was_wrong(const struct replay *r, struct assumptions *a)
{
	int wrong = 0;

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		const struct device *d = &r->device[i];
		int counted_from_runtime = !d->tensor_allocs && !d->tensor_frees &&
					   !d->reserved_levels && d->pytorch_allocs;

		if (d->seen && counted_from_runtime && !a->counted_from_runtime[i])
			a->counted_from_runtime[i] = wrong = 1;
	}
	return wrong;
}

static void find_phase(const struct device *d, const struct tables *t, struct moment *m)
{
	const struct span *s = spans_at(&d->spans, m->time_ns);
	uint32_t stack = tables_stack_flags(t, m->stack);

	m->step = s ? s->step : 1;
	m->phase = s ? s->phase : PHASE_SETUP;
	m->part = steps_part(s, stack);
}

/* Did a backward pass begin after this time, not the one that was running? A job that ends frees
 * its graph, also by autograd's threads, and allocates nothing. */
static int trained_after(const struct spans *s, uint64_t time_ns)
{
	const struct span *at = spans_at(s, time_ns);
	int forward = at && !activity_is_backward(at->activity);

	for (size_t i = at ? (size_t)(at - s->list) + 1 : s->count; i < s->count; i++) {
		if (forward && activity_is_backward(s->list[i].activity) && s->list[i].allocs)
			return 1;
		forward |= activity_is_forward(s->list[i].activity);
	}
	return 0;
}

/* Divides the spans into steps and phases, and looks up those of each moment. */
static void number_steps(struct replay *r, const struct tables *t, int ended_badly)
{
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &r->device[i];

		if (!d->seen)
			continue;
		d->spans.ended_badly = ended_badly;
		steps_number(&d->spans, t);
		find_phase(d, t, &d->now);
		find_phase(d, t, &d->peak);
		find_phase(d, t, &d->device_peak);
		for (size_t k = 0; k < d->failure_count; k++)
			find_phase(d, t, &d->failures[k].when);
		for (size_t k = 0; k < d->failure_count; k++)
			d->failures[k].trained =
				trained_after(&d->spans, d->failures[k].when.time_ns);
	}
}

/* All failures count for how the job ended; those of the wanted phase are kept. */
static void keep_failures(struct device *d)
{
	const struct failure *last;
	size_t kept = 0;

	if (!d->failure_count)
		return;
	last = &d->failures[d->failure_count - 1];
	d->ran_out = !failure_survived(last);
	d->ran_out_ns = last->when.time_ns;
	for (size_t i = 0; i < d->failure_count; i++)
		if (!d->failures[i].is_outside)
			d->failures[kept++] = d->failures[i];
	d->failures_seen -= d->failure_count - kept;
	d->failure_count = kept;
}

void replay_trace(struct replay *r, struct trace *t, const struct replay_options *options)
{
	struct assumptions a = { 0 };

	attribute_trace(t);
	*r = (struct replay){ 0 };
	replay_levels(r, t, &a, options);
	if (was_wrong(r, &a)) {
		replay_release(r);
		replay_levels(r, t, &a, options);
	}
	number_steps(r, &t->tables, t->header.state == MT_STATE_ENDED && t->header.exit_status > 0);
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		keep_failures(&r->device[i]);
	for (size_t i = 0; i < t->segment_count; i++) {
		r->given_up += t->segments[i].given_up;
		r->open_gaps += t->segments[i].gap && !t->segments[i].has_keyframe;
	}
	replay_live_blocks(r, t, options);
}

void replay_release(struct replay *r)
{
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		device_release(&r->device[i]);
	marks_release(&r->marks);
	*r = (struct replay){ 0 };
}
