#include "report/report_steps.h"

#include <stdlib.h>

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void add_span(struct rank *r, const struct span *s)
{
	const char *phase = phase_name((enum phase)s->phase);
	const struct span_row *last = r->spans + (r->span_count ? r->span_count - 1 : 0);

	if (r->span_count < REPORT_SPANS &&
	    (!r->span_count || last->phase != phase || last->step != s->step))
		r->spans[r->span_count++] =
			(struct span_row){ seconds(s->start_ns), phase, s->step };
}

/* The setup phase is not a step. */
static void add_to_step(struct rank *r, const struct span *s, uint64_t end_ns, int is_new_phase)
{
	struct step_row *row = r->steps + (r->step_count ? r->step_count - 1 : 0);

	if (!span_step(s))
		return;
	if (!r->step_count || row->step != s->step) {
		if (r->step_count == REPORT_STEPS)
			return;
		row = &r->steps[r->step_count++];
		*row = (struct step_row){ .step = s->step,
					  .start_s = seconds(s->start_ns),
					  .floor = s->floor,
					  .peak = INT64_MIN };
	}
	row->end_s = seconds(end_ns);
	row->floor = s->floor < row->floor ? s->floor : row->floor;
	if (s->peak > row->peak) {
		row->peak = s->peak;
		row->peak_phase = (enum phase)s->phase;
	}
	row->reserved = s->reserved;
	row->device = r->imported ? UNKNOWN_BYTES : s->device;
	row->forwards += is_new_phase && s->phase == PHASE_FORWARD;
	row->backwards += is_new_phase && s->phase == PHASE_BACKWARD;
}

static void add_to_phase(struct phase_row rows[PHASES], const struct span *s)
{
	struct phase_row *row = &rows[s->phase];

	if (row->phase && s->peak <= row->peak)
		return;
	*row = (struct phase_row){ .phase = phase_name((enum phase)s->phase),
				   .peak = s->peak,
				   .time_s = seconds(s->start_ns),
				   .step = s->step };
}

void report_add_steps(struct rank *r, const struct device *d, uint64_t end_ns)
{
	const struct spans *spans = &d->spans;
	struct phase_row rows[PHASES] = { 0 };

	r->steps = xcalloc(spans->count < REPORT_STEPS ? spans->count : REPORT_STEPS,
			   sizeof(*r->steps));
	r->spans = xcalloc(spans->count < REPORT_SPANS ? spans->count : REPORT_SPANS,
			   sizeof(*r->spans));
	r->phases = xcalloc(PHASES, sizeof(*r->phases));
	for (size_t i = 0; i < spans->count; i++) {
		const struct span *s = &spans->list[i];

		add_to_step(r, s, i + 1 < spans->count ? spans->list[i + 1].start_ns : end_ns,
			    !i || spans->list[i - 1].phase != s->phase);
		add_span(r, s);
		add_to_phase(rows, s);
	}
	for (size_t p = 0; p < PHASES; p++)
		if (rows[p].phase)
			r->phases[r->phase_count++] = rows[p];
}

void report_add_timeline(struct rank *r, const struct timeline *t)
{
	r->timeline = xcalloc(t->used, sizeof(*r->timeline));
	r->timeline_count = t->used;
	for (size_t i = 0; i < t->used; i++)
		r->timeline[i] = (struct timeline_row){
			.time_s = (double)((uint64_t)i << t->shift) / 1e9,
			.allocated = timeline_peak(t, i, CURVE_ALLOCATED),
			.reserved = timeline_peak(t, i, CURVE_RESERVED),
			.device = r->imported ? UNKNOWN_BYTES : timeline_peak(t, i, CURVE_DEVICE),
		};
}
