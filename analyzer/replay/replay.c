#include "replay/replay.h"

#include "attribution/steps.h"
#include "trace/visit.h"

#include <stdlib.h>

#define SURVIVED_ALLOCS 1000

/*
 * A job that catches the error and goes on (with a smaller batch, say) still allocates a little
 * when it does not: to print, to clean up, to save. It went on if PyTorch handed out, after the
 * failure, at least the refused bytes in total and more than 1000 further blocks.
 */
int failure_survived(const struct failure *f)
{
	return f->later_bytes >= f->requested && f->later_allocs > SURVIVED_ALLOCS;
}

static void forget(struct replay *r)
{
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &r->device[i];

		for (size_t k = 0; k < d->failure_count; k++)
			free(d->failures[k].live.groups);
		free(d->failures);
		spans_release(&d->spans);
		free(d->timeline);
		free(d->owner_timeline);
		free(d->comms.list);
		free(d->at_peak.groups);
		lives_release(&d->held_at_peak);
		free(d->live);
	}
	*r = (struct replay){ 0 };
}

/* Was an assumption wrong? Then `a` is corrected. */
static int was_wrong(const struct replay *r, struct assumptions *a)
{
	int wrong = 0;

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		const struct device *d = &r->device[i];
		int stand_in = !d->tensor_allocs && !d->tensor_frees && !d->reserved_levels &&
			       d->pytorch_allocs;

		if (d->seen && stand_in && !a->stand_in[i])
			a->stand_in[i] = wrong = 1;
	}
	return wrong;
}

static void settle(const struct device *d, const struct tables *t, struct moment *m)
{
	const struct span *s = spans_at(&d->spans, m->time_ns);
	uint32_t stack = tables_stack_flags(t, m->stack);

	m->step = s ? s->step : 1;
	m->phase = s ? s->phase : PHASE_SETUP;
	m->part = steps_part(s, stack);
}

/* Steps and phases, of the moments too. */
static void number_steps(struct replay *r, const struct tables *t)
{
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &r->device[i];

		if (!d->seen)
			continue;
		steps_number(&d->spans, t);
		settle(d, t, &d->now);
		settle(d, t, &d->peak);
		settle(d, t, &d->device_peak);
		for (size_t k = 0; k < d->failure_count; k++)
			settle(d, t, &d->failures[k].when);
	}
}

void replay_trace(struct replay *r, const struct trace *t, const struct replay_options *options)
{
	struct assumptions a = { 0 };

	*r = (struct replay){ 0 };
	curves_pass(r, t, &a, options);
	if (was_wrong(r, &a)) {
		forget(r);
		curves_pass(r, t, &a, options);
	}
	number_steps(r, &t->tables);
	for (size_t i = 0; i < t->segment_count; i++) {
		r->given_up += t->segments[i].given_up;
		r->open_gaps += t->segments[i].gap && !t->segments[i].has_keyframe;
	}
	blocks_pass(r, t, options);
}

void replay_release(struct replay *r)
{
	forget(r);
}
