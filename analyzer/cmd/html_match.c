#include "cmd/html_match.h"

#include <stdlib.h>

#include "cmd/match_inputs.h"
#include "cmd/simulation_messages.h"
#include "match/match.h"
#include "render/match_json.h"
#include "systems/memtrace.h"

static int make(struct matches *m, const struct match_inputs *j, const struct html_match_options *o,
		struct err *e)
{
	const struct run_options run = { o->python, simulation_messages_of_terminal() };
	const struct report *r = &j->session.report;
	struct tolerances t = { .total = MATCH_TOLERANCE };

	for (enum category c = 0; c < CATEGORIES; c++)
		t.component[c] = -1;
	m->list = xcalloc(r->count, sizeof(*m->list));
	for (size_t i = 0; i < r->count; i++) {
		const struct config *c = match_inputs_config(j, &r->ranks[i]);

		if (!r->ranks[i].peak_allocated)
			continue;
		if (match_make(&m->list[m->count++], &r->ranks[i], own_system(c, o->how, &run), c,
			       &t, e) < 0)
			return -1;
	}
	matches_sort(m);
	return m->count ? 0 : err_set(e, "none of the traces has an allocation of PyTorch's");
}

int html_match(char **paths, size_t count, const struct html_match_options *o, struct buf *json,
	       struct err *e)
{
	struct matches m = { .tolerance = MATCH_TOLERANCE };
	struct match_inputs j;
	int status = match_inputs_read(&j, paths, count, o->run, o->job, o->infer, e);

	if (!status && j.is_inferred) {
		m.inference = &j.inference;
		m.config = &j.traces[0].config;
	}
	if (!status)
		status = make(&m, &j, o, e);
	if (!status)
		match_json(&m, json);
	for (size_t i = 0; i < m.count; i++)
		match_release(&m.list[i]);
	free(m.list);
	match_inputs_release(&j);
	return status;
}
