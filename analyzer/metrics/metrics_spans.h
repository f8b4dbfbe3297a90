/* The step, the phase and the forward pass that the replay of a device is in, and the most that
 * each of them has allocated. */
#ifndef MEMTRACE_METRICS_SPANS_H
#define MEMTRACE_METRICS_SPANS_H

#include "metrics/metrics_counterfactual.h"
#include "metrics/metrics_pass.h"

/* Enters the spans that begin up to `time`; a step ends where that of the span does. */
void metrics_enter_spans(const struct metrics_pass *p, struct device_pass *d, uint64_t time);
/* A forward pass begins. */
void metrics_begin_run(struct device_pass *d);
/* Appends the levels of the current step to the list, and begins the next one. */
void metrics_end_step(struct device_pass *d);

/* The level has risen until now, and what comes next is a free, or the end of a step. */
static inline void metrics_note_top(struct device_pass *d)
{
	bytes top = d->allocated;

	d->rising = 0;
	d->now.peak = top > d->now.peak ? top : d->now.peak;
	if (d->phase == PHASE_OPTIMIZER)
		d->now.optimizer_peak = larger_of(d->now.optimizer_peak, top);
	else if (d->phase == PHASE_EVALUATION && d->now.optimizer_peak)
		d->now.evaluation_peak = larger_of(d->now.evaluation_peak, top);
	else
		d->now.pass_peak = larger_of(d->now.pass_peak, top);
	if (d->phase != PHASE_EVALUATION && !d->is_past)
		d->trained_peak = larger_of(d->trained_peak, top);
	if (top > d->limit)
		counterfactuals_note_top(d, top);
}

/* Updates step, phase and run for an event of the tensor layer. */
static inline void metrics_enter_time(const struct metrics_pass *p, struct device_pass *d,
				      uint64_t time, int is_alloc)
{
	if (time >= d->next_span_ns && d->device->spans.count)
		metrics_enter_spans(p, d, time);
	if (is_alloc && !d->is_past_forward &&
	    (!d->run_is_open || (d->run <= 1 && d->phase != PHASE_SETUP)))
		metrics_begin_run(d);
}

#endif
