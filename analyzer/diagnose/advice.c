#include "diagnose/advice.h"

#include "diagnose/diagnose.h"

#define NEARLY_FULL_PERCENT 95 /* of the device's memory */

int rank_is_nearly_full(const struct rank *r)
{
	return (r->total > 0 && rank_held(r) >= r->total / 100 * NEARLY_FULL_PERCENT) ||
	       r->ooms_seen || (r->metrics && r->metrics->retries > 0);
}

/* Would its first remedy make room, as far as that is known? */
static int makes_room(const struct finding *f, const struct rank *r)
{
	bytes saving = f->remedies[0].saving;

	return saving == SAVING_UNKNOWN || saving >= r->total / 100;
}

/* A saving that is known comes before one that is not; of several, the finding that is listed
 * first.
 */
const struct finding *advice_finding(const struct report *r, size_t rank)
{
	const struct diagnosis *d = r->diagnosis;
	const struct finding *unknown = NULL;

	for (size_t i = 0; i < d->count && !rank_died(&r->ranks[rank]); i++) {
		const struct finding *f = &d->findings[i];

		if (f->rank != rank || f->is_cause || f->is_informational || f->weight <= 0 ||
		    !f->remedy_count || f->severity != SEVERITY_NOTE ||
		    !makes_room(f, &r->ranks[rank]))
			continue;
		if (f->remedies[0].saving != SAVING_UNKNOWN)
			return f;
		unknown = unknown ? unknown : f;
	}
	return unknown;
}

int rank_has_need(const struct rank *r)
{
	const struct metrics *m = r->metrics;

	return m && rank_died(r) &&
	       (m->pass_unfinished ||
		(m->whole_need && (m->whole_need > m->moment_need || !m->whole_measured)));
}

const char *inference_stage(const struct rank *r)
{
	const struct metrics *m = r->metrics;

	if (!m || !m->inference)
		return NULL;
	return m->in_prefill ? "prefill" : m->in_decode ? "decode" : "inference";
}
