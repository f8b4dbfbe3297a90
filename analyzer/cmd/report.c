/* memtrace report: the memory at the peak, and the cause of an out-of-memory error. */
#include "cmd/command.h"
#include "cmd/follow.h"
#include "cmd/simulation_messages.h"
#include "diagnose/diagnose.h"
#include "session/session.h"
#include "render/findings.h"
#include "json/ranks_json.h"
#include "render/ranks_text.h"
#include "json/report_json.h"
#include "render/report_text.h"
#include "simulate/whole_need.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHASES_NAMED 10 /* in a message */

struct options {
	const char *run, *phase;
	int json, live_set, raw_bytes, color, top, rules, runs, advise, whole_need, follow;
};

/* Runs the job of the rank that is shown again, on a device that is large enough. */
static int measure(const struct session *session, struct measured_need *need, struct err *e)
{
	static char directory[] = "/tmp/memtrace-need-XXXXXX";
	const struct rank *r = report_worst(&session->report);
	struct failed_job job = { .command = session->command,
				  .working = session->working,
				  .rank = r->rank,
				  .world = r->world_size,
				  .gpu = r->gpu,
				  .total = r->total };
	int status;

	/* Without ranks, a script that sees several GPUs may use them all. */
	job.gpus = r->rank != NO_RANK && r->world_size > 1 ? 8 : r->device + 1;
	/* One more than the step that failed, since the first step makes the optimizer's states. */
	job.steps = r->oom_count ? (int)rank_oom(r)->when.step + 1 : 2;
	job.steps = job.steps < 2 ? 2 : job.steps;
	if (!rank_died(r))
		status = err_set(
			e,
			"--whole-need: the job did not run out of memory, so its peak is what it needs");
	else if (!session->argv_count)
		status = err_set(e, "the trace has no command line");
	else if (!mkdtemp(directory))
		status = err_set(e, "cannot make a directory in /tmp: %s", strerror(errno));
	else
		status = whole_need_measure(&job, directory, simulation_messages(), need, e);
	return status;
}

/* Fails if no trace has a phase of this name, and names those that there are. */
static int find_phase(const struct report *r, const char *phase, struct err *e)
{
	struct buf names = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < r->count; i++)
		if (r->ranks[i].asked_phase)
			return 0;
	for (size_t i = 0; i < r->count; i++)
		for (size_t k = 0; k < r->ranks[i].named_count && count < PHASES_NAMED; k++)
			buf_addf(&names, "%s%s", count++ ? ", " : "", r->ranks[i].named[k].name);
	err_set(e, "--phase %s: the job named no such phase%s%s", phase,
		count ? "; it named " : ": see memtrace-python(7)", count ? names.text : "");
	buf_release(&names);
	return -1;
}

static int print_part(void *context, const char *text, size_t length)
{
	(void)context;
	return command_print(text, length);
}

static int report(char **paths, size_t count, const struct options *o)
{
	const struct session_options load = { .run = o->run,
					      .phase = o->phase,
					      .keep_live = o->live_set,
					      .rank = NO_RANK,
					      .progress = term_progress };
	struct style style = term_style((enum color_when)o->color);
	struct buf notes = { 0 }, out = { 0 };
	struct err e = { 0 };
	struct diagnosis diagnosis = { 0 };
	struct measured_need need = { 0 };
	struct session session;
	int status = session_load(&session, paths, count, &load, &notes, &e);

	term_progress_end();
	if (notes.length)
		fputs(notes.text, stderr);
	if (!status && o->phase)
		status = find_phase(&session.report, o->phase, &e);
	if (!status && o->whole_need) {
		status = measure(&session, &need, &e);
		session.report.need = status ? NULL : &need;
	}
	if (status < 0) {
		status = command_fail(STATUS_USAGE, &e);
	} else {
		diagnose(&diagnosis, &session.report);
		session.report.diagnosis = &diagnosis;
		style.raw_bytes = o->raw_bytes;
		style.top = o->top;
		style.advise = o->advise;
		if (o->json) {
			status = report_json_each(&session.report, print_part, NULL, NULL);
		} else {
			report_text(&session.report, &style, &out);
			if (session.files.attempts.length)
				buf_addf(&out, "attempts    %s\n", session.files.attempts.text);
			status = command_print(out.text, out.length);
		}
	}
	diagnosis_release(&diagnosis);
	free(need.metrics);
	session_release(&session);
	buf_release(&notes);
	buf_release(&out);
	return status;
}

/* Prints the table of rules: causes, messages and sources. */
static int rules(const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 };
	int status;

	findings_rules(&style, &out);
	status = command_print(out.text, out.length);
	buf_release(&out);
	return status;
}

/* Lists the runs of a directory. */
static int runs(const char *directory, const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf notes = { 0 }, out = { 0 };
	struct err e = { 0 };
	struct recorded_run *all;
	size_t count;
	int status = trace_files_runs(directory, &all, &count, &notes, &e);

	style.raw_bytes = o->raw_bytes;
	if (notes.length)
		fputs(notes.text, stderr);
	if (!status && !count)
		status = err_set(&e, "none of the traces can be read");
	if (status < 0)
		status = command_fail(STATUS_USAGE, &e);
	else if (o->json)
		runs_json(all, count, &out);
	else
		runs_text(all, count, &style, &out);
	if (!status)
		status = command_print(out.text, out.length);
	recorded_runs_release(all, count);
	buf_release(&notes);
	buf_release(&out);
	return status;
}

static struct options given = { .top = 10 };
static const struct opt rows[] = {
	RUN_OPTION(&given.run),
	{ "runs", 0, OPT_FLAG, &given.runs, NULL,
	  "list the runs of a directory, with what --run accepts for each", 0, 0 },
	{ "json", 0, OPT_FLAG, &given.json, NULL, "write JSON: everything, in bytes and seconds", 0,
	  0 },
	{ "live-set", 0, OPT_FLAG, &given.live_set, NULL,
	  "with --json: also list every block that was live at the end", 0, 0 },
	{ "phase", 0, OPT_TEXT, &given.phase, "NAME",
	  "show the peak while this phase was open, which the job named", 0, 0 },
	BYTES_OPTION(&given.raw_bytes),
	{ "top", 0, OPT_COUNT, &given.top, "N", "show the N largest stacks (10)", 0, 1000000 },
	{ "advise", 0, OPT_FLAG, &given.advise, NULL,
	  "show the line \"advice\" also if the device was not nearly full", 0, 0 },
	{ "whole-need", 0, OPT_FLAG, &given.whole_need, NULL,
	  "run the job again on a simulated device with more memory, and report the memory that it needs",
	  0, 0 },
	{ "follow", 0, OPT_FLAG, &given.follow, NULL,
	  "print a line whenever the memory of a running process has changed, and the report at its end",
	  0, 0 },
	{ "rules", 0, OPT_FLAG, &given.rules, NULL,
	  "list the causes that memtrace knows, and those that a trace cannot show", 0, 0 },
	COLOR_OPTION(&given.color),
};

/* Follows a process, and reports it when it has ended. */
static int follow_and_report(const char *path, const struct options *o)
{
	struct err e = { 0 };
	char *trace = NULL;
	int status = follow(path, &trace, &e);

	status = status < 0 ? command_fail(STATUS_USAGE, &e) : report(&trace, 1, o);
	free(trace);
	return status;
}

static int run(char **paths, size_t count)
{
	struct err e = { 0 };

	if (given.rules)
		return rules(&given);
	if (!count)
		err_set(&e, "report needs a trace: a file, or a directory of traces");
	if (given.runs && count != 1)
		err_set(&e, "report --runs needs one directory of traces");
	if (given.runs && (given.run || given.live_set))
		err_set(&e, "--runs lists runs and reports none: leave --run and --live-set away");
	if (given.follow && (count != 1 || given.run || given.runs))
		err_set(&e, "--follow needs one trace, or a directory in which one process runs");
	if (given.follow && given.json)
		err_set(&e, "--follow prints text: memtrace top --json writes objects");
	if (given.live_set && !given.json)
		err_set(&e, "--live-set needs --json");
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	if (given.follow)
		return follow_and_report(paths[0], &given);
	return given.runs ? runs(paths[0], &given) : report(paths, count, &given);
}

const struct command cmd_report = {
	.name = "report",
	.summary = "show what held the memory at the peak, and why a job ran out of memory",
	.usage = "[OPTIONS] TRACE...",
	.about = "Shows what held the memory at the peak, and why the job ran out of it.\n"
		 "TRACE is a file, or a directory of traces.\n" ABOUT_ATTEMPT,
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
