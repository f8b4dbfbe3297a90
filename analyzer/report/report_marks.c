#include "report/report_marks.h"

#include <stdlib.h>

static char *name_of(struct rank *r, const struct tables *t, uint32_t string)
{
	struct buf b = { 0 };

	buf_add_clean(&b, tables_string(t, string));
	if (!b.length)
		buf_puts(&b, "(no name)");
	r->pool = grow(r->pool, r->pool_count, &r->pool_room, sizeof(*r->pool));
	return r->pool[r->pool_count++] = buf_take(&b);
}

/* Row 0 of the replay stands for the whole job; rows of a report begin with the first phase. */
static const struct named_row *row_of(const struct rank *r, uint32_t phase)
{
	return phase && phase <= r->named_count ? &r->named[phase - 1] : NULL;
}

void report_add_marks(struct rank *r, const struct trace *t, const struct replay *p, int device)
{
	const struct marks *m = &p->marks;
	const struct device *d = &p->device[device];

	if (m->wanted) {
		r->pool = grow(r->pool, r->pool_count, &r->pool_room, sizeof(*r->pool));
		r->asked_phase = r->pool[r->pool_count++] = xstrdup(m->wanted);
	}
	r->steps_marked = m->steps_seen != 0;
	r->named_left_out = m->left_out;
	r->named_count = m->phase_count ? m->phase_count - 1 : 0;
	r->named = xcalloc(r->named_count, sizeof(*r->named));
	for (size_t i = 0; i < r->named_count; i++) {
		const struct named_phase *from = &m->phases[i + 1];

		r->named[i] = (struct named_row){
			.name = name_of(r, &t->tables, from->name),
			.within = row_of(r, from->parent),
			.times = from->times,
			.first_s = (double)from->first_ns / 1e9,
			.peak = from->peak[device],
		};
	}
	r->moment_count = m->moment_count;
	r->moments = xcalloc(r->moment_count, sizeof(*r->moments));
	for (size_t i = 0; i < r->moment_count; i++)
		r->moments[i] = (struct moment_row){
			.name = name_of(r, &t->tables, m->moments[i].name),
			.time_s = (double)m->moments[i].time_ns / 1e9,
			.allocated = m->moments[i].allocated[device],
			.peak = m->moments[i].peak[device],
		};
	r->peak.named = row_of(r, d->peak.named_phase);
	r->device_peak.named = row_of(r, d->device_peak.named_phase);
	for (size_t i = 0; i < r->oom_count && i < d->failure_count; i++)
		r->ooms[i].when.named = row_of(r, d->failures[i].when.named_phase);
}
