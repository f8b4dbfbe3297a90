/* memtrace plan: the parallel layouts that fit. */
#include "cmd/command.h"
#include "cmd/simulation_messages.h"
#include "estimate/device.h"
#include "systems/systems.h"
#include "session/job_assume.h"
#include "session/job_options.h"
#include "plan/plan.h"
#include "json/plan_json.h"
#include "render/plan_text.h"
#include "simulate/verify_plan.h"
#include "util/terminal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
	const char *system;
	struct opt_list fixed;
	int verify;
	int gpus, most[DIMENSIONS], margin, order, flags, top, all, json, color;
	struct job job;
};

/* Prints the plan. `simulated`: an additional member of the JSON, or NULL. */
static int print(const struct plan *plan, const struct options *o, json_t *simulated)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 };
	int status;

	if (o->json)
		plan_json(plan, (enum plan_launcher)o->flags, simulated, &out);
	else
		plan_text(plan, (enum plan_launcher)o->flags, o->all ? SIZE_MAX : (size_t)o->top,
			  &style, &out);
	status = command_print(out.text, out.length);
	buf_release(&out);
	return status == STATUS_SUCCESS && !plan->fitting.count ? STATUS_NEGATIVE : status;
}

static const struct plan_layout *best_so_far(const struct plan *plan)
{
	for (size_t i = 0; i < plan->fitting.count; i++)
		if (plan->fitting.at[i].fit == FIT_GREEN)
			return &plan->fitting.at[i];
	return NULL;
}

static int has_progress; /* a line of it is on the terminal */

/* Shows the best so far on a terminal, every second. */
static void show_progress(const struct plan *plan, size_t judged, size_t all)
{
	static struct timespec shown, now;
	const struct plan_layout *l;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!shown.tv_sec)
		shown = now;
	if (now.tv_sec <= shown.tv_sec || !isatty(STDERR_FILENO))
		return;
	shown = now;
	l = best_so_far(plan);
	has_progress = 1;
	fprintf(stderr, "\r\033[Kmemtrace: %zu of at most %zu layouts, %zu fit", judged, all,
		plan->fitting.count);
	if (l)
		fprintf(stderr, "; the best so far: tp %lld, pp %lld, cp %lld, %.3g s a step",
			(long long)l->size[DIM_TP], (long long)l->size[DIM_PP],
			(long long)l->size[DIM_CP], l->time.seconds);
}

static void clear_progress(void)
{
	if (has_progress)
		fputs("\r\033[K", stderr);
}

static int ask(struct plan *p, const struct options *o, struct config *c, struct buf *assumed,
	       struct err *e)
{
	int status;

	if (!o->gpus)
		return err_set(e, "plan needs --gpus N, the number of GPUs");
	p->gpus = o->gpus;
	p->margin = o->margin;
	p->order = (enum plan_order)o->order;
	p->progress = show_progress;
	p->lists_stages = o->json;
	p->enough = o->all ? 0 : (size_t)(o->top > o->verify ? o->top : o->verify);
	memcpy(p->most, o->most, sizeof(p->most));
	for (size_t i = 0; i < o->fixed.count; i++)
		if (plan_fix(p, o->fixed.at[i], e) < 0)
			return -1;
	p->system = o->system ? system_find(o->system, e) : plan_default_system();
	if (!p->system || job_read(&o->job, c, e) < 0 ||
	    job_assume_plan(c, o->gpus, assumed, e) < 0)
		return -1;
	p->assumed = assumed->text;
	p->memory = device_memory(c, e);
	if (!p->memory)
		return err_set(e, "plan needs a GPU: --gpu NAME, or device_memory_bytes");
	status = p->memory < 0 ? -1 : plan_make(p, e);
	clear_progress();
	return status;
}

/* Simulates the best layouts; the table follows the plan, or is part of its JSON. */
static int verify(const struct plan *p, const struct options *o, struct err *e)
{
	struct opt_list words = o->job.command;
	char **command = xcalloc(words.count + 1, sizeof(*command));
	size_t count = p->fitting.count < (size_t)o->verify ? p->fitting.count : (size_t)o->verify;
	struct verified_layout *list = xcalloc(count + 1, sizeof(*list));
	const struct verify_options options = {
		.gpu = o->job.gpu,
		.command = command,
		.messages = simulation_messages(),
		.output_to_stderr = o->json, /* standard output is the document */
	};
	struct buf out = { 0 };
	int fitting = 0, status;
	json_t *simulated;

	for (size_t i = 0; i < words.count; i++)
		command[i] = (char *)words.at[i];
	if (verify_plan(p, &options, list, count, e) < 0) {
		status = command_fail(STATUS_INTERNAL, e);
	} else if (o->json) {
		simulated = verify_plan_json(list, count);
		status = print(p, o, simulated);
		json_decref(simulated);
	} else {
		buf_puts(&out, "\nsimulated\n");
		verify_plan_text(p, list, count, &out);
		status = command_print(out.text, out.length);
	}
	for (size_t i = 0; i < count; i++)
		fitting += list[i].verdict == FITS;
	if (status == STATUS_SUCCESS && !fitting)
		status = STATUS_NEGATIVE;
	buf_release(&out);
	free(command);
	free(list);
	return status;
}

static int plan(const struct options *o)
{
	struct options planned = *o;
	struct buf assumed = { 0 };
	struct err e = { 0 };
	struct config c;
	struct plan p;
	int status = STATUS_SUCCESS;

	config_init(&c);
	plan_init(&p, &c);
	if (o->verify) /* the command is a template then, and declares nothing */
		planned.job.command = (struct opt_list){ 0 };
	if (o->verify && !o->job.command.count)
		err_set(&e,
			"--verify needs a command: -- COMMAND with {tp}, {pp}, {cp}, {mbs} ... in it");
	if (e.text[0] || ask(&p, &planned, &c, &assumed, &e) < 0)
		status = command_fail(STATUS_USAGE, &e);
	else if (!o->verify || !o->json)
		status = print(&p, o, NULL);
	if (o->verify && status == STATUS_SUCCESS)
		status = verify(&p, o, &e);
	plan_release(&p);
	buf_release(&assumed);
	config_release(&c);
	return status;
}

static struct options given = { .margin = 20, .top = 10 };
#define MAX_OPTION(dim, name, help)                                                      \
	{                                                                                \
		"max-" name, 0, OPT_COUNT, &given.most[DIM_##dim], "N", help, 1, 1000000 \
	}
static const struct opt rows[] = {
	JOB_OPTIONS(&given.job),
	{ "gpus", 0, OPT_COUNT, &given.gpus, "N", "number of GPUs", 1, 1000000 },
	{ "system", 0, OPT_TEXT, &given.system, "NAME", "the system that estimates", 0, 0 },
	{ "fix", 0, OPT_LIST, &given.fixed, "K=V",
	  "fix a size: tp, pp, cp, dp, vpp, ep, mbs, recompute, zero; may be repeated", 0, 0 },
	MAX_OPTION(TP, "tp", "largest tensor-parallel size (8, a node)"),
	MAX_OPTION(PP, "pp", "largest pipeline-parallel size"),
	MAX_OPTION(CP, "cp", "largest context-parallel size"),
	MAX_OPTION(DP, "dp", "largest data-parallel size"),
	MAX_OPTION(VPP, "vpp", "most model chunks a stage"),
	MAX_OPTION(EP, "ep", "largest expert-parallel size"),
	MAX_OPTION(MBS, "mbs", "largest micro-batch"),
	{ "memory-margin", 0, OPT_COUNT, &given.margin, "PERCENT",
	  "share of the GPU's memory that a layout in green leaves free (20)", 0, 99 },
	{ "order", 0, OPT_CHOICE, &given.order, "time|document",
	  "rank by the predicted time of a step (the default), or as document 003 does", 0, 0 },
	{ "flags", 0, OPT_CHOICE, &given.flags,
	  "none|megatron|deepspeed|torchtitan|accelerate|megatron-core|transformers",
	  "print each layout as flags of a framework", 0, 0 },
	{ "top", 0, OPT_COUNT, &given.top, "N", "show the best N layouts (10)", 1, 1000000 },
	{ "all", 0, OPT_FLAG, &given.all, NULL,
	  "show all layouts, and why each of the others is not possible", 0, 0 },
	{ "json", 0, OPT_FLAG, &given.json, NULL, "write JSON: everything, in bytes", 0, 0 },
	{ "verify", 0, OPT_COUNT, &given.verify, "K",
	  "simulate the best K layouts; COMMAND contains {tp}, {pp}, {cp}, {mbs} ...", 1, 100 },
	COLOR_OPTION(&given.color),
};

static void more_help(void)
{
	fputs("\nSystems:\n", stdout);
	for (size_t i = 0; i < system_count; i++)
		printf("  %-22s %s%s\n", systems[i]->name, systems[i]->title,
		       systems[i] == plan_default_system() ? " (the default)" : "");
}

static int run(char **arguments, size_t count)
{
	struct err e = { 0 };

	if (job_check(&given.job, "plan", arguments, count, &e) < 0)
		return command_fail(STATUS_USAGE, &e);
	return plan(&given);
}

const struct command cmd_plan = {
	.name = "plan",
	.summary = "list the parallel layouts that fit, the best first",
	.usage =
		"[OPTIONS] --gpus N --gpu NAME [--config FILE]... [--set KEY=VALUE]... [-- COMMAND...]",
	.about =
		"Lists the parallel layouts of a job that fit on N GPUs, the fastest first, by a predicted time of a\n"
		"training step. For a model's file without them, a sequence has at most 4,096 tokens and the global batch one\n"
		"sequence for each GPU. The layout that the job declares is not used.",
	.more_help = more_help,
	.options = { .rows = rows, .count = ARRAY_SIZE(rows), .command = &given.job.command },
	.run = run,
};
