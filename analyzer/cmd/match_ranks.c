#include "cmd/match_ranks.h"

#include <stdlib.h>

#include "cmd/simulation_messages.h"
#include "match/match_explain.h"
#include "match/match_what_if.h"
#include "systems/memtrace.h"
#include "systems/systems.h"

struct tolerances tolerances_default(void)
{
	struct tolerances t = { .total = MATCH_TOLERANCE };

	for (enum category c = 0; c < CATEGORIES; c++)
		t.component[c] = -1;
	return t;
}

/* Explains the last match; ranks with the same missing bytes have the same reasons. */
static void explain(struct matches *m, const struct config *c, const struct tolerances *t)
{
	struct match *last = &m->list[m->count - 1];

	for (size_t i = 0; i + 1 < m->count; i++)
		if (match_is_alike(last, &m->list[i])) {
			match_explain_as(last, &m->list[i]);
			return;
		}
	match_explain(last, c, t);
}

int match_ranks(struct matches *m, const struct match_inputs *j,
		const struct match_ranks_options *o, struct err *e)
{
	const struct run_options run = { o->python, simulation_messages_of_terminal() };
	const struct report *r = &j->session.report;
	const struct system *system = system_find(o->system, e);
	int is_own = system == &memtrace;

	if (!system)
		return -1;
	if (j->is_inferred) {
		m->inferred = &j->inferred;
		m->config = &j->traces[0].config;
	}
	m->tolerance = o->tolerances.total;
	m->list = xcalloc(r->count, sizeof(*m->list));
	for (size_t i = 0; i < r->count; i++) {
		const struct rank *rank = &r->ranks[i];
		const struct config *c = match_inputs_config(j, rank);

		if (!rank->peak_allocated)
			continue;
		if (is_own)
			system = own_system(c, o->how, &run);
		if (match_make(&m->list[m->count++], rank, system, c, &o->tolerances, e) < 0)
			return -1;
		/* An explanation tries other configurations: too many runs. */
		if (system != &memtrace_by_run && !o->without_reasons)
			explain(m, c, &o->tolerances);
		if (o->what_if && match_what_if(&m->list[m->count - 1], c, o->what_if, e) < 0)
			return -1;
	}
	matches_sort(m);
	return m->count ? 0 : err_set(e, "none of the traces has an allocation of PyTorch's");
}

void matches_release(struct matches *m)
{
	for (size_t i = 0; i < m->count; i++)
		match_release(&m->list[i]);
	free(m->list);
}
