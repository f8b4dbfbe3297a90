#include "diagnose/diagnose_ranks.h"

#include "metrics/metrics.h"
#include "report/report.h"

#include <string.h>

#define MAX_INTRUDER_BYTES \
	(INT64_C(64) << 20) /* a process that allocates more works on the device */

static int is_same_host(const struct rank *a, const struct rank *b)
{
	return a->host && b->host && !strcmp(a->host, b->host);
}

/* Does the process of this entry work on another device? */
static int is_visit(const struct report *r, const struct rank *v)
{
	if (v->peak_allocated > MAX_INTRUDER_BYTES)
		return 0;
	for (size_t i = 0; i < r->count; i++) {
		const struct rank *o = &r->ranks[i];

		if (o->pid == v->pid && is_same_host(o, v) && o->device != v->device &&
		    o->peak_allocated > 4 * v->peak_allocated)
			return 1;
	}
	return 0;
}

static void add_visits(const struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct rank *v = &r->ranks[i];

		if (!v->metrics || !is_visit(r, v))
			continue;
		for (size_t k = 0; k < r->count; k++) {
			const struct rank *host = &r->ranks[k];

			if (k == i || !host->metrics || host->pid == v->pid ||
			    host->device != v->device || !is_same_host(host, v) ||
			    is_visit(r, host))
				continue;
			host->metrics->intruders++;
			host->metrics->intruder_bytes += host->metrics->context;
		}
	}
}

static int is_stage(const struct rank *r)
{
	return r->metrics && r->metrics->pipeline_size > 1 &&
	       r->peak_allocated > MAX_INTRUDER_BYTES;
}

static void compare_stage(const struct report *r, const struct rank *s)
{
	struct metrics *m = s->metrics;
	bytes others = 0, last = 0, others_static = 0;
	bytes own = m->parameters + m->gradients + m->optimizer_states;
	double expected;
	int64_t count = 0;

	m->last_stage = m->pipeline_rank == m->pipeline_size - 1;
	for (size_t i = 0; i < r->count; i++) {
		const struct metrics *o = r->ranks[i].metrics;

		if (!is_stage(&r->ranks[i]) || o->pipeline_rank == m->pipeline_rank)
			continue;
		count++;
		others += o->parameters;
		if (o->pipeline_rank == o->pipeline_size - 1)
			last = o->activations > last ? o->activations : last;
	}
	if (!count || m->parameters <= 0)
		return;
	others /= count;
	expected = (double)own * (double)others / (double)m->parameters;
	/* The numbers of a damaged record may give any quotient. */
	if (expected < -(double)BYTES_LIMIT || expected > (double)BYTES_LIMIT)
		return;
	others_static = (bytes)expected;
	if (m->parameters > others / 10 * 13)
		m->stage_static = own - others_static;
	if (!m->last_stage && last && m->activations > last / 2 * 3)
		m->stage_activations = m->activations - last;
}

void diagnose_ranks(const struct report *r)
{
	add_visits(r);
	for (size_t i = 0; i < r->count; i++)
		if (is_stage(&r->ranks[i]))
			compare_stage(r, &r->ranks[i]);
}
