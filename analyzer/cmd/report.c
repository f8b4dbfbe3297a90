/* memtrace report: where did the peak go? why did it run out of memory? */
#include "cmd/command.h"
#include "diagnose/diagnose.h"
#include "session/session.h"
#include "render/report_output.h"

#include <stdio.h>

struct options {
	const char *run;
	int json, live_set, raw_bytes, color, top, rules;
};

static int report(char **paths, size_t count, const struct options *o)
{
	const struct session_options load = {
		.run = o->run, .keep_live = o->live_set, .rank = NO_RANK, .progress = term_progress
	};
	struct style style = term_style((enum color_when)o->color);
	struct buf notes = { 0 }, out = { 0 };
	struct err e = { 0 };
	struct diagnosis diagnosis = { 0 };
	struct session session;
	int status = session_load(&session, paths, count, &load, &notes, &e);

	term_progress_end();
	if (notes.length)
		fputs(notes.text, stderr);
	if (status < 0) {
		status = command_fail(STATUS_USAGE, &e);
	} else {
		diagnose(&diagnosis, &session.report);
		session.report.diagnosis = &diagnosis;
		style.raw_bytes = o->raw_bytes;
		style.top = o->top;
		if (o->json)
			render_json(&session.report, &out);
		else
			render_text(&session.report, &style, &out);
		status = command_print(out.text, out.length);
	}
	diagnosis_release(&diagnosis);
	session_release(&session);
	buf_release(&notes);
	buf_release(&out);
	return status;
}

/* The table itself: what can be found, and where it comes from. */
static int rules(const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 };
	int status;

	render_rules(&style, &out);
	status = command_print(out.text, out.length);
	buf_release(&out);
	return status;
}

int cmd_report(int argc, char **argv)
{
	struct options o = { .top = 10 };
	const struct opt rows[] = {
		{ "run", 0, OPT_TEXT, &o.run, "ID",
		  "the run to report, where a directory has several (ID or ID:RESTART)", 0, 0 },
		{ "json", 0, OPT_FLAG, &o.json, NULL,
		  "machine-readable: everything, in bytes and seconds", 0, 0 },
		{ "live-set", 0, OPT_FLAG, &o.live_set, NULL,
		  "with --json: every block that was live at the end", 0, 0 },
		BYTES_OPTION(&o.raw_bytes),
		{ "top", 0, OPT_COUNT, &o.top, "N", "how many places to show (10)", 0, 1000000 },
		{ "rules", 0, OPT_FLAG, &o.rules, NULL,
		  "the causes that are known, and those that a trace cannot tell", 0, 0 },
		COLOR_OPTION(&o.color),
	};
	struct opt_set set = { .rows = rows, .count = ARRAY_SIZE(rows) };
	struct err e = { 0 };
	int n = opt_parse(&set, argc, argv, &e);

	if (set.wants_help) {
		command_help(
			"report [OPTIONS] TRACE...",
			"Says where the memory was at the peak, and why the job ran out of it.\n"
			"TRACE is a file, or a directory of them (its latest run).",
			&set);
		return STATUS_FINE;
	}
	if (!e.text[0] && o.rules)
		return rules(&o);
	if (!n)
		err_set(&e, "report needs a trace: a file, or a directory of them");
	if (o.live_set && !o.json)
		err_set(&e, "--live-set needs --json");
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	return report(argv + 1, (size_t)n, &o);
}
