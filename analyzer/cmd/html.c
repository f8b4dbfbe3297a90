/* memtrace html: one page to look at and to share. */
#include "cmd/command.h"
#include "cmd/diff_inputs.h"
#include "cmd/html_match.h"
#include "diagnose/diagnose.h"
#include "html/html.h"
#include "record/record_lines.h"
#include "json/diff_json.h"
#include "render/diff_text.h"
#include "session/session.h"
#include "session/two_jobs.h"
#include "util/terminal.h"
#include "util/whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *run, *output, *ranks, *simulated, *python;
	int redact, how, infer;
	struct job job;
};

static int write_page(const struct options *o, const struct buf *page)
{
	struct whole_file w;
	struct err e = { 0 };

	if (!strcmp(o->output, "-")) {
		if (fwrite(page->text, 1, page->length, stdout) == page->length && !fflush(stdout))
			return STATUS_SUCCESS;
		err_set(&e, "cannot write the result: %s", strerror(errno));
		return command_fail(STATUS_INTERNAL, &e);
	}
	if (whole_file_begin(&w, o->output, 0, &e) < 0)
		return command_fail(STATUS_USAGE, &e);
	fwrite(page->text, 1, page->length, w.file);
	if (whole_file_end(&w, 0, &e) < 0)
		return command_fail(STATUS_USAGE, &e);
	fprintf(stderr, "memtrace: wrote %s (%.1f MB); open it in a browser\n", o->output,
		(double)page->length / 1e6);
	return STATUS_SUCCESS;
}

/* Makes the page of a report and writes it; `status` and `e` are of what was read before. */
static int finish(const struct options *o, struct report *report,
		  const struct html_options *page_options, int status, struct err *e)
{
	struct buf page = { 0 };

	if (!status)
		status = html_page(report, page_options, &page, e);
	term_progress_end();
	status = status < 0 ? command_fail(STATUS_USAGE, e) : write_page(o, &page);
	buf_release(&page);
	return status;
}

static void print_notes(struct buf *notes)
{
	term_progress_end();
	if (notes->length)
		fputs(notes->text, stderr);
	buf_release(notes);
}

static int is_estimate_asked(const struct options *o)
{
	return o->job.files.count || o->job.values.count || o->job.environment.count ||
	       o->job.gpu || o->simulated || o->infer || o->how != HOW_AUTO || o->python;
}

/* Adds the estimate beside the traces, and beside those of --simulated. A job that declares its
 * model has it without being asked, if that is quick; a failure is then no failure of the page. */
static int add_estimate(char **paths, size_t count, const struct options *o,
			const struct session *s, struct html_part *parts, struct err *e)
{
	int is_asked = is_estimate_asked(o), status;
	struct html_match_options match = { .run = o->run,
					    .python = o->python,
					    .job = &o->job,
					    .how = is_asked ? (enum how)o->how : HOW_FORMULA,
					    .infer = o->infer,
					    .redact = o->redact };
	char *simulated = (char *)(uintptr_t)o->simulated;
	struct err why = { 0 };

	if (!is_asked && (!s->report.declared || s->files.count > SESSION_MAX_WHOLE))
		return 0;
	parts[0].name = "match";
	status = html_match(paths, count, &match, &parts[0].json, &why);
	if (!status && simulated) {
		parts[1].name = "simulated";
		match.run = NULL;
		status = html_match(&simulated, 1, &match, &parts[1].json, &why);
	}
	if (!status)
		return 0;
	parts[0].name = NULL;
	term_progress_end();
	if (is_asked)
		return err_set(e, "%s", why.text);
	fprintf(stderr, "memtrace: the page has no estimate: %s\n", why.text);
	return 0;
}

static int make_page(char **paths, size_t count, const struct options *o)
{
	const struct session_options load = { .run = o->run,
					      .rank = NO_RANK,
					      .progress = term_progress };
	struct html_part parts[HTML_PARTS] = { { .name = NULL } };
	const struct html_options options = { .ranks = o->ranks,
					      .redact = o->redact,
					      .is_of_records = path_is_records(*paths),
					      .parts = parts,
					      .progress = term_progress };
	struct diagnosis diagnosis = { 0 };
	struct session session;
	struct buf notes = { 0 };
	struct err e = { 0 };
	int status = session_load(&session, paths, count, &load, &notes, &e);

	if (!status) {
		diagnose(&diagnosis, &session.report);
		session.report.diagnosis = &diagnosis;
	}
	print_notes(&notes);
	if (!status && !options.is_of_records)
		status = add_estimate(paths, count, o, &session, parts, &e);
	status = finish(o, &session.report, &options, status, &e);
	for (size_t i = 0; i < HTML_PARTS; i++)
		buf_release(&parts[i].json);
	diagnosis_release(&diagnosis);
	session_release(&session);
	return status;
}

/* The comparison as text, what it says first, and as JSON. `redact`: without declared values, which
 * are of the command line. */
static void describe(struct diff *d, int redact, struct buf *text, struct buf *answer,
		     struct buf *json)
{
	const struct style style = { .width = 100, .unicode = 1, .top = 10 };
	size_t whole = d->count;

	while (redact && d->count && d->items[d->count - 1].kind == DIFF_CONFIG)
		d->count--;
	diff_text(d, NULL, NULL, &style, text);
	diff_sides_text(d, &style, answer);
	diff_json(d, 0, 0, json);
	d->count = whole;
}

/* The rank that --ranks names; NO_RANK: it is not given. */
static int one_rank(const char *list, int *rank, struct err *e)
{
	*rank = NO_RANK;
	if (!list)
		return 0;
	*rank = (int)strtol(list, NULL, 10);
	return !*list || list[strspn(list, "0123456789")] || strlen(list) > 9
		       ? err_set(e, "--ranks: of two jobs one rank is compared, not \"%s\"", list)
		       : 0;
}

static int make_comparison(char **sides, const struct options *o)
{
	struct diff_inputs d = { .diff = { .count = 0 } };
	struct html_part parts[2] = { { .name = "diff" } };
	struct html_options options = { .redact = o->redact,
					.parts = parts,
					.progress = term_progress };
	struct rank ranks[SIDES];
	struct report both = { .ranks = ranks, .count = SIDES };
	struct buf notes = { 0 }, text = { 0 }, answer = { 0 };
	struct err e = { 0 };
	int rank, status = one_rank(o->ranks, &rank, &e);

	if (!status)
		status = diff_inputs_read(&d, sides, rank, &notes, &e);
	print_notes(&notes);
	for (int s = 0; s < SIDES && !status; s++) {
		ranks[s] = *d.diff.side[s].ranks[0];
		options.jobs[s] = &d.sides[s].all[0]->report;
	}
	if (!status)
		describe(&d.diff, o->redact, &text, &answer, &parts[0].json);
	options.comparison = text.text;
	options.answer = answer.text;
	status = finish(o, &both, &options, status, &e);
	diff_inputs_release(&d);
	buf_release(&parts[0].json);
	buf_release(&text);
	buf_release(&answer);
	return status;
}

#define WHOLE_RANKS AS_TEXT(HTML_WHOLE_RANKS)

static struct options given = { .output = "memtrace.html" };
static const struct opt rows[] = {
	{ "output", 'o', OPT_TEXT, &given.output, "FILE",
	  "write to FILE (memtrace.html); - is standard output", 0, 0 },
	{ "ranks", 0, OPT_TEXT, &given.ranks, "LIST",
	  "keep every event of these ranks, as 0,8-15 (all of up to " WHOLE_RANKS ", else two)", 0,
	  0 },
	JOB_OPTIONS(&given.job),
	HOW_OPTIONS(&given.how, &given.python),
	{ "infer", 0, OPT_FLAG, &given.infer, NULL,
	  "show an estimate also of a job that does not declare its model: infer what is missing",
	  0, 0 },
	{ "simulated", 0, OPT_TEXT, &given.simulated, "TRACE",
	  "show the same job's run on the simulated device beside it, term by term", 0, 0 },
	{ "redact", 0, OPT_FLAG, &given.redact, NULL,
	  "leave out names of hosts and users, directories and the command line", 0, 0 },
	RUN_OPTION(&given.run),
};

/* Do the arguments take the options that were given? */
static int check_options(char **paths, int are_compared, struct err *e)
{
	if (path_is_records(*paths) && (given.ranks || is_estimate_asked(&given)))
		return err_set(
			e,
			"%s has records without events: --ranks and the options of an estimate need the traces",
			*paths);
	if (are_compared && is_estimate_asked(&given))
		return err_set(
			e,
			"a comparison, of %s and %s, has no estimate: the options of an estimate need one job",
			paths[0], paths[1]);
	return 0;
}

static int run(char **paths, size_t count)
{
	int are_compared =
		count == 2 && !given.run && !path_is_records(*paths) && are_two_jobs(paths);
	struct err e = { 0 };

	if (!count)
		err_set(&e, "html needs a trace: a file, or a directory of traces");
	else if (!check_options(paths, are_compared, &e))
		html_is_possible(&e);
	if (e.text[0])
		return command_fail(STATUS_USAGE, &e);
	return are_compared ? make_comparison(paths, &given) : make_page(paths, count, &given);
}

const struct command cmd_html = {
	.name = "html",
	.summary = "write one page that shows the memory of a job at every moment",
	.usage = "[OPTIONS] TRACE... | A B",
	.about =
		"Writes one HTML file with the report and every event of the traces. It needs no network.\n"
		"TRACE is a file, or a directory of traces, or a file of records (memtrace summarize), whose page has\n"
		"no events.\n" ABOUT_ATTEMPT "\n"
		"If two arguments are two jobs, the page shows both, and the changes from A to B; A and B are as in\n"
		"`memtrace diff`.",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
