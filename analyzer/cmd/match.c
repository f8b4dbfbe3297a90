/* memtrace match: does what was observed agree with the estimate? */
#include "command.h"
#include "gather.h"
#include "match.h"
#include "match_explain.h"
#include "match_what_if.h"
#include "model/job.h"
#include "render/match_page.h"
#include "replay.h"
#include "trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *run, *system, *tolerance, *what_if;
	struct opt_list component_tolerances;
	int json, raw_bytes, color, top;
	struct job job;
};

static int read_share(const char *option, const char *text, double *share, struct err *e)
{
	char *end;

	*share = strtod(text, &end);
	if (end != text && *end == '%' && !end[1])
		*share /= 100;
	else if (end == text || *end)
		*share = -1;
	if (!isfinite(*share) || *share < 0)
		return err_set(e, "%s is \"%s\", expected a share such as 0.05 or 5%%", option,
			       text);
	return 0;
}

/* "X" is for every component, "NAME=X" for one. */
static int read_component(struct tolerances *t, const char *text, struct err *e)
{
	const char *equals = strchr(text, '=');
	double share;
	int known = 0;

	if (read_share("--component-tolerance", equals ? equals + 1 : text, &share, e) < 0)
		return -1;
	for (enum category c = 0; c < CATEGORIES; c++)
		if (!equals || (strlen(category_key(c)) == (size_t)(equals - text) &&
				!strncmp(category_key(c), text, (size_t)(equals - text)))) {
			t->component[c] = share;
			known = 1;
		}
	if (known)
		return 0;
	err_set(e,
		"--component-tolerance is \"%s\": there is no component \"%.*s\"; parameters, gradients, "
		"optimizer_states, activations are some",
		text, (int)(equals - text), text);
	return -1;
}

static int read_tolerances(const struct options *o, struct tolerances *t, struct err *e)
{
	for (enum category c = 0; c < CATEGORIES; c++)
		t->component[c] = -1;
	if (read_share("--tolerance", o->tolerance, &t->total, e) < 0)
		return -1;
	for (size_t i = 0; i < o->component_tolerances.count; i++)
		if (read_component(t, o->component_tolerances.at[i], e) < 0)
			return -1;
	return 0;
}

/* A trace, what its header declares, and where its ranks are in the report. */
struct declared {
	struct config config;
	size_t first, count;
	const char *path;
};

static int add_declared(struct declared *s, struct report *r, const char *path,
			const struct options *o, struct err *e)
{
	struct replay_options replay = { .keep_peak = 1, .progress = term_progress };
	struct trace t;
	int status = -1;

	config_init(&s->config);
	s->path = path;
	if (trace_open_header(&t, path, e) == 0 && trace_load(&t, e) == 0 &&
	    config_read_trace(&s->config, &t, e) == 0 && job_read(&o->job, &s->config, e) == 0) {
		report_add(r, &t, &replay);
		status = 0;
	}
	term_progress_end();
	trace_release(&t);
	return status;
}

static const struct config *config_of(const struct declared *s, size_t count, const struct rank *r)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(s[i].path, r->trace))
			return &s[i].config;
	BUG("a rank of no trace");
}

static int make(struct matches *m, const struct report *r, const struct declared *s, size_t count,
		const struct options *o, struct err *e)
{
	const struct system *system = system_find(o->system, e);
	struct tolerances t;

	if (!system || read_tolerances(o, &t, e) < 0)
		return -1;
	m->tolerance = t.total;
	m->list = xcalloc(r->count, sizeof(*m->list));
	for (size_t i = 0; i < r->count; i++) {
		const struct rank *rank = &r->ranks[i];

		if (!rank->peak_allocated)
			continue;
		if (match_make(&m->list[m->count++], rank, system, config_of(s, count, rank), &t,
			       e) < 0)
			return -1;
		match_explain(&m->list[m->count - 1], config_of(s, count, rank), &t);
		if (o->what_if && match_what_if(&m->list[m->count - 1], config_of(s, count, rank),
						o->what_if, e) < 0)
			return -1;
	}
	return m->count ? 0 : err_set(e, "none of the traces has an allocation of PyTorch's");
}

static int print(const struct matches *m, const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 };
	int status;

	style.raw_bytes = o->raw_bytes;
	style.top = o->top;
	if (o->json)
		match_json(m, &out);
	else
		match_text(m, &style, &out);
	status = command_print(out.text, out.length);
	buf_release(&out);
	return status == STATUS_FINE && matches_fail(m) ? STATUS_NO : status;
}

static int match(char **paths, size_t count, const struct options *o)
{
	struct buf notes = { 0 };
	struct report r = { 0 };
	struct matches m = { 0 };
	struct declared *sources = NULL;
	struct gather g;
	struct err e = { 0 };
	int status = gather_traces(&g, paths, count, o->run, &notes, &e);
	size_t made = 0;

	if (notes.length)
		fputs(notes.text, stderr);
	if (!status) {
		sources = xcalloc(g.count, sizeof(*sources));
		while (!status && made < g.count) {
			status = add_declared(&sources[made], &r, g.paths[made], o, &e);
			made++;
		}
	}
	if (!status) {
		report_sort(&r);
		status = make(&m, &r, sources, made, o, &e);
	}
	status = status < 0 ? command_fail(STATUS_USAGE, &e) : print(&m, o);
	for (size_t i = 0; i < m.count; i++)
		match_release(&m.list[i]);
	free(m.list);
	for (size_t i = 0; i < made; i++)
		config_release(&sources[i].config);
	free(sources);
	report_release(&r);
	gather_release(&g);
	buf_release(&notes);
	return status;
}

static void help(const struct opt_set *set)
{
	command_help(
		"match [OPTIONS] TRACE...",
		"Says whether what a job allocated at its peak agrees with what its configuration should need,\n"
		"rank by rank and term by term. TRACE is a file, or a directory of them (its latest run); its\n"
		"command line, and MEMTRACE_CONFIG, declare the configuration. Later values win.",
		set);
	puts("\nExit status: 0 it matches, 1 it does not, 2 bad usage or input.");
}

int cmd_match(int argc, char **argv)
{
	struct options o = { .system = "memtrace", .tolerance = "0.05", .top = 12 };
	const struct opt rows[] = {
		JOB_OPTIONS(&o.job),
		{ "run", 0, OPT_TEXT, &o.run, "ID",
		  "the run, where a directory has several (ID or ID:RESTART)", 0, 0 },
		{ "system", 0, OPT_TEXT, &o.system, "NAME", "who estimates (memtrace)", 0, 0 },
		{ "tolerance", 0, OPT_TEXT, &o.tolerance, "X",
		  "how far the estimate may be off, as a share of what was observed (0.05)", 0, 0 },
		{ "component-tolerance", 0, OPT_LIST, &o.component_tolerances, "[NAME=]X",
		  "the same for each component, or for one; may be repeated", 0, 0 },
		{ "what-if", 0, OPT_TEXT, &o.what_if, "K=V,...",
		  "the peak of another configuration, from what this one was seen to need", 0, 0 },
		{ "top", 0, OPT_COUNT, &o.top, "N", "how many lines of each table (12)", 0,
		  1000000 },
		{ "bytes", 0, OPT_FLAG, &o.raw_bytes, NULL, "sizes in bytes", 0, 0 },
		{ "json", 0, OPT_FLAG, &o.json, NULL, "machine-readable: everything, in bytes", 0,
		  0 },
		{ "color", 0, OPT_CHOICE, &o.color, "auto|always|never",
		  "colours (auto: on a terminal)", 0, 0 },
	};
	struct opt_set set = { .rows = rows, .count = ARRAY_SIZE(rows) };
	struct err e = { 0 };
	int n = opt_parse(&set, argc, argv, &e), status;

	if (set.wants_help) {
		help(&set);
		status = STATUS_FINE;
	} else if (n <= 0) {
		if (!n)
			err_set(&e, "match needs a trace: a file, or a directory of them");
		status = command_fail(STATUS_USAGE, &e);
	} else {
		status = match(argv + 1, (size_t)n, &o);
	}
	opt_list_release(&o.component_tolerances);
	job_release(&o.job);
	return status;
}
