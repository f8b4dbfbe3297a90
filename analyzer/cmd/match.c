/* memtrace match: the observed peak beside the estimate. */
#include "cmd/command.h"
#include "cmd/match_ranks.h"
#include "match/match.h"
#include "json/inferred_json.h"
#include "render/inferred_text.h"
#include "json/match_json.h"
#include "render/match_text.h"
#include "util/shell.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *run, *system, *tolerance, *what_if, *write_config, *python;
	struct opt_list component_tolerances;
	int how, json, raw_bytes, color, top, infer;
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

/* A tolerance: "X" for every component, "NAME=X" for one. */
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
	*t = tolerances_default();
	if (read_share("--tolerance", o->tolerance, &t->total, e) < 0)
		return -1;
	for (size_t i = 0; i < o->component_tolerances.count; i++)
		if (read_component(t, o->component_tolerances.at[i], e) < 0)
			return -1;
	return 0;
}

static void add_option(struct buf *b, const char *name, struct str value)
{
	buf_addf(b, " %s ", name);
	shell_add_word(b, value);
}

static void add_text(struct buf *b, const char *name, const char *value)
{
	if (value)
		add_option(b, name, (struct str){ value, strlen(value) });
}

/* The page shows a gap best. It takes the options that say what the job is and how the estimate is
 * made. */
static void add_page(const struct matches *m, char **paths, size_t count, const struct options *o,
		     struct buf *out)
{
	const struct opt_list *const lists[] = { &o->job.files, &o->job.values,
						 &o->job.environment };
	static const char *const names[] = { "--config", "--set", "--env" };
	struct buf options = { 0 };
	int has_gap = matches_fail(m);

	for (size_t i = 0; i < m->count; i++)
		has_gap |= match_has_gap(&m->list[i]);
	if (!has_gap)
		return;
	add_text(&options, "--run", o->run);
	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		for (size_t i = 0; i < lists[k]->count; i++)
			add_text(&options, names[k], lists[k]->at[i]);
	add_text(&options, "--gpu", o->job.gpu);
	if (o->how != HOW_AUTO)
		add_option(&options, "--how", opt_word(HOW_WORDS, o->how));
	add_text(&options, "--python", o->python);
	if (m->inferred)
		buf_puts(&options, " --infer");
	command_add_page(out, &options, paths, count);
	buf_release(&options);
}

static int print(const struct matches *m, char **paths, size_t count, const struct options *o)
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
	if (!o->json)
		add_page(m, paths, count, o, &out);
	status = command_print(out.text, out.length);
	buf_release(&out);
	return status == STATUS_SUCCESS && matches_fail(m) ? STATUS_NEGATIVE : status;
}

/* Writes the inferred configuration as a file for --config. */
static int write_config(const struct match_inputs *j, const char *path, struct err *e)
{
	struct buf out = { 0 };
	FILE *f = fopen(path, "w");
	int status = 0;

	inferred_file(&j->traces[0].config, &out);
	if (!f || fwrite(out.text, 1, out.length, f) != out.length)
		status = -1;
	if ((f && fclose(f)) || status)
		status = err_set(e, "--write-config: cannot write \"%s\": %s", path,
				 strerror(errno));
	buf_release(&out);
	return status;
}

static int match(char **paths, size_t count, const struct options *o)
{
	struct match_ranks_options ranks = { .system = o->system,
					     .python = o->python,
					     .what_if = o->what_if,
					     .how = (enum how)o->how };
	struct matches m = { 0 };
	struct match_inputs j;
	struct err e = { 0 };
	int status = match_inputs_read(&j, paths, count, o->run, &o->job, o->infer, &e);

	if (!status && o->write_config)
		status = write_config(&j, o->write_config, &e);
	if (!status)
		status = read_tolerances(o, &ranks.tolerances, &e);
	if (!status)
		status = match_ranks(&m, &j, &ranks, &e);
	status = status < 0 ? command_fail(STATUS_USAGE, &e) : print(&m, paths, count, o);
	matches_release(&m);
	match_inputs_release(&j);
	return status;
}

#define TOLERANCE AS_TEXT(MATCH_TOLERANCE)

static struct options given = { .system = "memtrace", .tolerance = TOLERANCE, .top = 12 };
static const struct opt rows[] = {
	JOB_OPTIONS(&given.job),
	RUN_OPTION(&given.run),
	{ "system", 0, OPT_TEXT, &given.system, "NAME", "the system that estimates (memtrace)", 0,
	  0 },
	HOW_OPTIONS(&given.how, &given.python),
	{ "tolerance", 0, OPT_TEXT, &given.tolerance, "X",
	  "allowed error of the estimate, as a share of the observed peak (" TOLERANCE ")", 0, 0 },
	{ "component-tolerance", 0, OPT_LIST, &given.component_tolerances, "[NAME=]X",
	  "allowed error of each component, or of one; may be repeated", 0, 0 },
	{ "what-if", 0, OPT_TEXT, &given.what_if, "K=V,...",
	  "predict the peak of a changed configuration from the observed one", 0, 0 },
	{ "infer", 0, OPT_FLAG, &given.infer, NULL,
	  "infer missing values (the default when no configuration is given)", 0, 0 },
	{ "write-config", 0, OPT_TEXT, &given.write_config, "FILE",
	  "write the matched configuration, for estimate --config", 0, 0 },
	{ "top", 0, OPT_COUNT, &given.top, "N", "show N lines of each table (12)", 0, 1000000 },
	BYTES_OPTION(&given.raw_bytes),
	{ "json", 0, OPT_FLAG, &given.json, NULL, "write JSON: everything, in bytes", 0, 0 },
	COLOR_OPTION(&given.color),
};

static void more_help(void)
{
	puts("\nExit status: 0 the job matches, 1 it does not, 2 bad usage or input.");
}

static int run(char **paths, size_t count)
{
	struct err e = { 0 };

	if (!count) {
		err_set(&e, "match needs a trace: a file, or a directory of traces");
		return command_fail(STATUS_USAGE, &e);
	}
	return match(paths, count, &given);
}

const struct command cmd_match = {
	.name = "match",
	.summary = "compare what a job allocated with its estimate, term by term",
	.usage = "[OPTIONS] TRACE...",
	.about =
		"Compares what each rank allocated at its peak with the estimate for its configuration, term by term.\n"
		"TRACE is a file, or a directory of traces.\n" ABOUT_ATTEMPT "\n"
		"Its command line and MEMTRACE_CONFIG declare the configuration; later values win. If no configuration\n"
		"is given, memtrace infers one from the trace and prints how certain each value is.",
	.more_help = more_help,
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
