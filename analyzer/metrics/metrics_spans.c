#include "metrics/metrics_spans.h"

void metrics_end_step(struct device_pass *d)
{
	d->now.reserved = d->reserved;
	d->now.outside = d->outside;
	d->now.pinned = *d->pinned;
	if (d->count < METRICS_MAX_STEPS) {
		d->list = grow(d->list, d->count, &d->room, sizeof(*d->list));
		d->list[d->count++] = d->now;
	}
	d->now = (struct step_levels){ .floor = d->allocated };
}

void metrics_begin_run(struct device_pass *d)
{
	d->run++;
	d->run_born = 0;
	d->run_is_open = 1;
	d->level[WITHOUT_OLD_GRADIENTS] = d->backward_seen ? d->autograd_live : 0;
	d->limit = smaller_of(d->limit, counterfactual_limit(d, WITHOUT_OLD_GRADIENTS));
}

/* Enters the next span. A forward pass is not part of the training if no backward pass has followed
 * a call of the model from this caller. The loss belongs to the call before it. */
static void enter_span(const struct metrics_pass *p, struct device_pass *d, const struct span *s)
{
	int is_loss = (tables_stack_flags(p->tables, s->stack) & STACK_LOSS) != 0;

	/* The states that the step makes may be its last blocks: nothing is freed behind them. */
	if (d->phase == PHASE_OPTIMIZER)
		d->now.optimizer_peak = larger_of(d->now.optimizer_peak, d->allocated);
	d->phase = (enum phase)s->phase;
	d->called_untrained |= s->activity == ACTIVITY_EVALUATION;
	d->called |= activity_is_call(s->activity);
	if (s->activity == ACTIVITY_MODEL) {
		if (!d->pending.count ||
		    (!is_loss && d->pending.list[d->pending.count - 1] != s->caller))
			d->pending_names.count = 0;
		callers_add(&d->pending, s->caller);
		d->run_is_new = d->trained.count && !callers_has(&d->trained, s->caller);
	}
	d->optimizer_seen |= d->phase == PHASE_OPTIMIZER;
	if (d->phase != PHASE_BACKWARD)
		return;
	for (size_t i = 0; i < d->pending.count; i++)
		callers_add(&d->trained, d->pending.list[i]);
	d->pending.count = 0;
	evaluation_names_join(&d->trained_names, &d->pending_names);
	d->pending_names.count = 0;
	d->backward_seen = 1;
	d->run_is_new = 0;
}

void metrics_enter_spans(const struct metrics_pass *p, struct device_pass *d, uint64_t time)
{
	const struct spans *all = &d->device->spans;
	uint32_t step;

	if (!d->next_span_ns)
		enter_span(p, d, &all->list[0]);
	while (d->span + 1 < all->count && all->list[d->span + 1].start_ns <= time)
		enter_span(p, d, &all->list[++d->span]);
	d->next_span_ns = d->span + 1 < all->count ? all->list[d->span + 1].start_ns : UINT64_MAX;
	d->is_past_forward = d->phase == PHASE_BACKWARD || d->phase == PHASE_OPTIMIZER;
	d->run_is_open &= !d->is_past_forward;
	step = all->list[d->span].step ? all->list[d->span].step - 1 : d->step;
	if (step == d->step)
		return;
	if (d->rising)
		metrics_note_top(d);
	metrics_end_step(d);
	d->step = step;
	d->step_run = d->run;
}
