/* memtrace plan: which parallel layouts fit? */
#include "command.h"
#include "model/job.h"
#include "model/plan.h"
#include "term.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct options {
	const char *gpu, *unused;
	int gpus, most_t, margin, flags, top, all, json, color;
	struct job job;
};

static int print(const struct plan *plan, const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 };
	int status;

	if (o->json)
		plan_json(plan, (enum flags)o->flags, &out);
	else
		plan_text(plan, (enum flags)o->flags, o->all ? SIZE_MAX : (size_t)o->top, &style,
			  &out);
	status = command_print(out.text, out.length);
	buf_release(&out);
	return status == STATUS_FINE && !plan->count ? STATUS_NO : status;
}

static int plan(const struct options *o)
{
	struct plan p = { .gpus = o->gpus, .most_t = o->most_t, .margin = o->margin };
	struct err e = { 0 };
	struct config c;
	int status = -1;

	config_init(&c);
	p.config = &c;
	for (size_t i = 0; i < o->job.counts[JOB_FIX]; i++)
		if (plan_fix(&p, o->job.lists[JOB_FIX][i], &e) < 0)
			goto out;
	if (job_read(&o->job, &c, 0, o->gpu, &e) < 0)
		goto out;
	p.memory = device_memory(&c, &e);
	if (!p.memory)
		err_set(&e, "plan needs a GPU: --gpu NAME, or device_memory_bytes");
	if (!e.text[0] && !plan_make(&p, &e))
		status = print(&p, o);
out:
	if (status < 0)
		status = command_fail(STATUS_USAGE, &e);
	plan_release(&p);
	config_release(&c);
	return status;
}

static int parse(struct options *o, struct opt_set *set, int argc, char **argv, struct err *e)
{
	int left = job_take(&o->job, JOB_LISTS, argc, argv, e), n;

	if (left < 0)
		return -1;
	n = opt_parse(set, left, argv, e);
	if (n < 0 || set->wants_help)
		return n;
	if (n)
		return err_set(
			e, "\"%s\" is not an option: configuration files are given with --config",
			argv[1]);
	if (job_is_empty(&o->job))
		return err_set(e,
			       "plan needs a job: --config FILE, --set KEY=VALUE, or -- COMMAND");
	return o->gpus ? 0 : err_set(e, "plan needs --gpus N: how many GPUs there are");
}

int cmd_plan(int argc, char **argv)
{
	struct options o = { .most_t = 8, .margin = 20, .top = 10 };
	const struct opt rows[] = {
		{ "config", 0, OPT_TEXT, &o.unused, "FILE", "a configuration file; may be repeated",
		  0, 0 },
		{ "set", 0, OPT_TEXT, &o.unused, "K=V", "one value; may be repeated", 0, 0 },
		{ "env", 0, OPT_TEXT, &o.unused, "K=V",
		  "a variable of the job's environment; may be repeated", 0, 0 },
		{ "fix", 0, OPT_TEXT, &o.unused, "K=N",
		  "a size that is decided: tp, pp, cp, dp, mbs; may be repeated", 0, 0 },
		{ "gpus", 0, OPT_COUNT, &o.gpus, "N", "how many GPUs there are", 1, 1000000 },
		{ "gpu", 0, OPT_TEXT, &o.gpu, "NAME", "which", 0, 0 },
		{ "max-tp", 0, OPT_COUNT, &o.most_t, "N",
		  "largest tensor-parallel size (8, a node)", 1, 1000000 },
		{ "memory-margin", 0, OPT_COUNT, &o.margin, "PERCENT",
		  "what green leaves free of a GPU (20: the rule of 80 %)", 0, 99 },
		{ "flags", 0, OPT_CHOICE, &o.flags, "none|megatron|deepspeed|torchtitan|accelerate",
		  "each layout as flags to paste", 0, 0 },
		{ "top", 0, OPT_COUNT, &o.top, "N", "how many to show (10)", 1, 1000000 },
		{ "all", 0, OPT_FLAG, &o.all, NULL,
		  "show all, and why each of the others is not there", 0, 0 },
		{ "json", 0, OPT_FLAG, &o.json, NULL, "machine-readable: everything, in bytes", 0,
		  0 },
		{ "color", 0, OPT_CHOICE, &o.color, "auto|always|never",
		  "colours (auto: on a terminal)", 0, 0 },
	};
	struct opt_set set = { .rows = rows, .count = ARRAY_SIZE(rows) };
	struct err e = { 0 };
	int status = parse(&o, &set, argc, argv, &e);

	if (set.wants_help) {
		command_help(
			"plan [OPTIONS] --gpus N --gpu NAME [--config FILE]... [--set KEY=VALUE]... [-- COMMAND...]",
			"Which parallel layouts of a job fit on so many GPUs, the best first: as document 003 counts\n"
			"and ranks them. The job needs global_batch_size.",
			&set);
		status = STATUS_FINE;
	} else {
		status = status < 0 ? command_fail(STATUS_USAGE, &e) : plan(&o);
	}
	job_release(&o.job);
	return status;
}
