#include "cmd/html_match.h"

#include "cmd/match_ranks.h"
#include "json/match_json.h"

int html_match(char **paths, size_t count, const struct html_match_options *o, struct buf *json,
	       struct err *e)
{
	const struct match_ranks_options options = { .system = "memtrace",
						     .python = o->python,
						     .how = o->how,
						     .without_reasons = o->redact,
						     .tolerances = tolerances_default() };
	struct matches m = { 0 };
	struct match_inputs j;
	int status = match_inputs_read(&j, paths, count, o->run, o->job, o->infer, e);

	if (!status)
		status = match_ranks(&m, &j, &options, e);
	if (!status)
		match_json(&m, json);
	matches_release(&m);
	match_inputs_release(&j);
	return status;
}
