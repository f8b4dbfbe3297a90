/* memtrace estimate: the memory that a job needs, from its configuration. */
#include "cmd/command.h"
#include "cmd/simulation_messages.h"
#include "session/job_assume.h"
#include "session/job_options.h"
#include "estimate/device.h"
#include "estimate/fit.h"
#include "history/history_text.h"
#include "history/trend.h"
#include "modelrun/run_system.h"
#include "record/record.h"
#include "systems/deepspeed_zero.h"
#include "systems/memtrace.h"
#include "systems/systems.h"
#include "json/config_json.h"
#include "render/config_show.h"
#include "json/estimate_json.h"
#include "render/estimate_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *system, *explain, *python;
	const char *history_file;
	int how, json, raw_bytes, show_config, color, format, verbose, history;
	struct job job;
};

static int answer_add(struct answer *a, const struct system *s, const struct options *o,
		      struct err *e)
{
	struct estimate *out = &a->estimates[a->count];
	const struct run_options run = { o->python, simulation_messages_of_terminal() };
	int status = s == &memtrace ? own_estimate(out, a->config, (enum how)o->how, &run, e)
				    : estimate_make(out, s, a->config, DETAIL_ALL, e);

	if (!status) {
		a->count++;
		return 0;
	}
	estimate_release(out);
	a->refusals[a->refusal_count].system = s;
	snprintf(a->refusals[a->refusal_count].reason, sizeof(a->refusals->reason), "%s", e->text);
	a->refusal_count++;
	return -1;
}

/* JSON, --explain and DeepSpeed's table are of all systems unless one is named; a page for people
 * is our own answer. */
static const char *system_asked(const struct options *o)
{
	if (o->system || o->json || o->format || o->explain)
		return o->system;
	return memtrace.name;
}

/* Estimates with one system, or with all that can estimate the job. */
static int answer_make(struct answer *a, const struct options *o, struct err *e)
{
	const char *name = system_asked(o);
	const struct system *one = NULL;

	if (name && strcmp(name, "all")) {
		one = system_find(name, e);
		return one ? answer_add(a, one, o, e) : -1;
	}
	for (size_t i = 0; i < system_count; i++) {
		struct err why = { 0 };

		answer_add(a, systems[i], o, &why);
	}
	if (a->count)
		return 0;
	for (size_t i = 0; i < a->refusal_count; i++)
		err_print("%s: %s", a->refusals[i].system->name, a->refusals[i].reason);
	return err_set(e, "no system can answer");
}

static int unknown_term(const struct answer *a, const char *id, struct err *e)
{
	struct buf list = { 0 };

	for (size_t i = 0; i < a->count; i++)
		for (size_t j = 0; j < a->estimates[i].system->term_count; j++)
			buf_addf(&list, "%s%s", list.length ? ", " : "",
				 a->estimates[i].system->terms[j].id);
	err_set(e, "--explain is \"%s\", expected one of %s", id, list.text);
	buf_release(&list);
	return -1;
}

static int print_deepspeed(const struct answer *a, struct buf *out, struct err *e)
{
	for (size_t i = 0; i < a->count; i++)
		if (a->estimates[i].row_count) {
			estimate_deepspeed(&a->estimates[i], out);
			return 0;
		}
	for (size_t i = 0; i < a->refusal_count; i++)
		if (a->refusals[i].system == &deepspeed_zero)
			return err_set(e, "%s", a->refusals[i].reason);
	return err_set(e, "--format deepspeed needs system deepspeed-zero");
}

static int print(const struct answer *a, const struct options *o, struct buf *out, struct err *e)
{
	struct style style = term_style((enum color_when)o->color);

	style.raw_bytes = o->raw_bytes;
	if (o->format == 1)
		return print_deepspeed(a, out, e);
	if (o->json || o->format == 2)
		estimate_json(a, out);
	else if (!o->explain)
		estimate_text(a, &style, out);
	else if (!estimate_explain(a, o->explain, &style, out))
		return unknown_term(a, o->explain, e);
	return 0;
}

/* Whether an estimate fits the device; 1 if no device is given. */
static int fits(const struct answer *a)
{
	if (!a->memory)
		return 1;
	for (size_t i = 0; i < a->count; i++)
		if (estimate_fit(&a->estimates[i], a->memory) != FIT_RED)
			return 1;
	return 0;
}

/* Adds the comparison of the estimate with the stored runs of this job. No number of the
 * estimate changes. */
static int add_history(struct answer *a, const struct options *o, struct buf *sentence,
		       struct err *e)
{
	struct run_store h = { .path = NULL };
	struct history_run *runs = NULL;
	struct buf model = { 0 };
	struct correction c;
	char name[17];
	size_t count = 0;
	int status = history_open(&h, o->history_file, 1, e);

	if (!status)
		status = history_list(&h, &runs, &count, e);
	if (!status) {
		record_fingerprint(a->config, NULL, name);
		record_model(a->config, &model);
		c = correction_make(runs, count, name, model.text);
		a->history = (struct answer_history){
			.is_asked = 1,
			.is_same_model = c.is_same_model,
			.is_simulated = c.is_simulated,
			.runs = c.ratio.count,
			.ratio = c.ratio.median,
			.deviation = c.ratio.deviation,
		};
		correction_add(sentence, &c, h.path);
	}
	a->history.sentence = sentence->text;
	history_runs_release(runs, count);
	history_close(&h);
	buf_release(&model);
	return status;
}

static int estimate(const struct options *o)
{
	struct config c;
	struct answer a = { .config = &c, .verbose = o->verbose };
	struct buf out = { 0 }, assumed = { 0 }, sentence = { 0 };
	struct err e = { 0 };
	int status = STATUS_USAGE;

	config_init(&c);
	a.estimates = xcalloc(system_count, sizeof(*a.estimates));
	a.refusals = xcalloc(system_count, sizeof(*a.refusals));
	if (job_read(&o->job, &c, &e) < 0 || job_assume(&c, &assumed, &e) < 0)
		goto fail;
	a.assumed = assumed.text;
	if (o->show_config) {
		if (o->json || o->format == 2)
			config_show_json(&c, &out);
		else
			config_show(&c, &out);
		status = command_print(out.text ? out.text : "", out.length);
		goto out;
	}
	a.memory = device_memory(&c, &e);
	if (o->history && add_history(&a, o, &sentence, &e) < 0)
		goto fail;
	if (a.memory < 0 || answer_make(&a, o, &e) < 0 || print(&a, o, &out, &e) < 0)
		goto fail;
	status = command_print(out.text, out.length);
	if (status == STATUS_SUCCESS && !fits(&a))
		status = STATUS_NEGATIVE;
	goto out;
fail:
	status = command_fail(STATUS_USAGE, &e);
out:
	for (size_t i = 0; i < a.count; i++)
		estimate_release(&a.estimates[i]);
	free(a.estimates);
	free(a.refusals);
	buf_release(&out);
	buf_release(&assumed);
	buf_release(&sentence);
	config_release(&c);
	return status;
}

static struct options given;
static const struct opt rows[] = {
	JOB_OPTIONS(&given.job),
	{ "system", 0, OPT_TEXT, &given.system, "NAME|all",
	  "the system that estimates (memtrace; with --json: all)", 0, 0 },
	HOW_OPTIONS(&given.how, &given.python),
	{ "world-size", 0, OPT_COUNT, &given.job.world_size, "N", "number of GPUs of the job", 1,
	  100000000 },
	{ "explain", 0, OPT_TEXT, &given.explain, "TERM",
	  "show the formula, the values, the source and the result of a term", 0, 0 },
	{ "show-config", 0, OPT_FLAG, &given.show_config, NULL,
	  "show every key with its value and its source", 0, 0 },
	{ "format", 0, OPT_CHOICE, &given.format, "text|deepspeed|json",
	  "deepspeed: the table that DeepSpeed's own tool prints", 0, 0 },
	{ "history", 0, OPT_FLAG, &given.history, NULL,
	  "also say how far runs of this job were from the estimate; changes no number", 0, 0 },
	{ "history-file", 0, OPT_TEXT, &given.history_file, "FILE",
	  "the history of --history (~/.local/share/memtrace/history.sqlite)", 0, 0 },
	{ "verbose", 'v', OPT_FLAG, &given.verbose, NULL,
	  "show whole notes, sources and fixed sizes", 0, 0 },
	BYTES_OPTION(&given.raw_bytes),
	{ "json", 0, OPT_FLAG, &given.json, NULL, "write JSON: everything, in bytes", 0, 0 },
	COLOR_OPTION(&given.color),
};

static void more_help(void)
{
	fputs("\nSystems:\n", stdout);
	for (size_t i = 0; i < system_count; i++)
		printf("  %-22s %s\n", systems[i]->name, systems[i]->title);
}

static int run(char **arguments, size_t count)
{
	struct err e = { 0 };

	given.history |= given.history_file != NULL;
	if (job_check(&given.job, "estimate", arguments, count, &e) < 0)
		return command_fail(STATUS_USAGE, &e);
	return estimate(&given);
}

const struct command cmd_estimate = {
	.name = "estimate",
	.summary = "estimate the memory of a job from its configuration",
	.usage = "[OPTIONS] [--config FILE]... [--set KEY=VALUE]... [-- COMMAND [ARGUMENT...]]",
	.about =
		"Estimates the memory that a job needs, as published documents count it and as memtrace does.\n"
		"FILE is memtrace's JSON, config.json, ds_config.json, a YAML file of Megatron or Accelerate; COMMAND\n"
		"is the job's command line (Megatron, DeepSpeed, Accelerate, torchtitan, Trainer). Later values win.",
	.more_help = more_help,
	.options = { .rows = rows, .count = ARRAY_SIZE(rows), .command = &given.job.command },
	.run = run,
};
