/* memtrace diff: the changes between two jobs. */
#include "cmd/command.h"
#include "diff/diff.h"
#include "util/limit.h"
#include "render/diff_json.h"
#include "render/diff_text.h"
#include "util/size.h"
#include "util/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	const char *fail_over;
	int json, raw_bytes, color, top, rank;
};

/* The runs of one side. The diff refers to them. */
struct loads {
	struct session *all[DIFF_MAX_RUNS];
	size_t count;
};

static int add_run(struct loads *l, char *path, const char *run, const struct options *o,
		   struct buf *notes, struct err *e)
{
	const struct session_options load = { .run = run,
					      .rank = o->rank,
					      .progress = term_progress };
	int status;

	if (l->count == DIFF_MAX_RUNS)
		return err_set(e, "a side has more than %d runs", DIFF_MAX_RUNS);
	l->all[l->count] = xcalloc(1, sizeof(struct session));
	status = session_load(l->all[l->count++], &path, 1, &load, notes, e);
	term_progress_end();
	return status;
}

static int add_every_run(struct loads *l, char *path, const struct options *o, struct buf *notes,
			 struct err *e)
{
	struct recorded_run *runs;
	size_t count;
	struct buf ignored = { 0 }; /* add_run() writes them too */
	int status = trace_files_runs(path, &runs, &count, &ignored, e);

	for (size_t i = 0; i < count && !status; i++)
		status = add_run(l, path, runs[i].name, o, notes, e);
	recorded_runs_release(runs, count);
	buf_release(&ignored);
	return status;
}

/* `text` is PATH, PATH@RUN or PATH@all. If a file has the whole text as its name, it is used. */
static int add_path(struct loads *l, const char *text, const struct options *o, struct buf *notes,
		    struct err *e)
{
	char *path = xstrdup(text), *at = strrchr(path, '@');
	int status;

	if (!access(path, F_OK) || !at) {
		status = add_run(l, path, NULL, o, notes, e);
	} else {
		*at++ = '\0';
		status = strcmp(at, "all") ? add_run(l, path, at, o, notes, e)
					   : add_every_run(l, path, o, notes, e);
	}
	free(path);
	return status;
}

static int add_side(struct loads *l, const char *text, const struct options *o, struct buf *notes,
		    struct err *e)
{
	int status = 0;

	if (!access(text, F_OK))
		return add_path(l, text, o, notes, e);
	while (!status && *text) {
		size_t n = strcspn(text, ",");
		char *one = xasprintf("%.*s", (int)n, text);

		status = *one ? add_path(l, one, o, notes, e)
			      : err_set(e, "there is an empty name in a list of traces");
		free(one);
		text += n + (text[n] == ',');
	}
	if (!status && !l->count)
		status = err_set(e, "a side has no trace");
	return status;
}

/* Names of the peaks that grew by more than the limit, beyond the spread; "": none. */
static void find_over(const struct diff *c, const struct limit *limit, int raw, struct buf *over)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct diff_item *x = &c->items[i];
		bytes allowed = limit_of(limit, x->side[SIDE_A].median);

		if (x->kind != DIFF_PEAK || !x->is_changed || diff_item_change(x) <= allowed)
			continue;
		buf_addf(over, "%speak of %s: +", over->length ? "; " : "", x->title);
		size_add(over, diff_item_change(x), raw);
		buf_puts(over, ", at most ");
		size_add(over, allowed, raw);
	}
}

static int print(const struct diff *c, const struct limit *limit, const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 }, over = { 0 };
	int status;

	style.raw_bytes = o->raw_bytes;
	style.top = o->top;
	if (limit->is_given)
		find_over(c, limit, o->raw_bytes, &over);
	if (o->json)
		diff_json(c, limit->is_given, over.length != 0, &out);
	else
		diff_text(c, !limit->is_given ? NULL : over.length ? over.text : "", &style, &out);
	status = command_print(out.text, out.length);
	if (!status && over.length)
		status = STATUS_NO;
	buf_release(&out);
	buf_release(&over);
	return status;
}

static int diff(char **sides, const struct limit *limit, const struct options *o)
{
	struct loads loads[SIDES] = { { { 0 }, 0 } };
	struct diff c = { 0 };
	struct buf notes = { 0 };
	struct err e = { 0 };
	int status = 0;

	for (int s = 0; s < SIDES && !status; s++) {
		status = add_side(&loads[s], sides[s], o, &notes, &e);
		for (size_t i = 0; i < loads[s].count; i++)
			c.side[s].runs[i] = loads[s].all[i];
		c.side[s].count = loads[s].count;
	}
	if (!status)
		status = diff_make(&c, o->rank, &e);
	if (notes.length)
		fputs(notes.text, stderr);
	status = status < 0 ? command_fail(STATUS_USAGE, &e) : print(&c, limit, o);
	diff_release(&c);
	for (int s = 0; s < SIDES; s++)
		for (size_t i = 0; i < loads[s].count; i++) {
			session_release(loads[s].all[i]);
			free(loads[s].all[i]);
		}
	buf_release(&notes);
	return status;
}

static struct options given = { .top = 10, .rank = NO_RANK };
static const struct opt rows[] = {
	{ "rank", 0, OPT_COUNT, &given.rank, "N",
	  "compare rank N of both jobs (default: the rank that `report` shows of each)", 0,
	  INT32_MAX },
	{ "fail-over", 0, OPT_TEXT, &given.fail_over, "SIZE|PERCENT",
	  "exit with status 1 if a peak grew by more", 0, 0 },
	{ "json", 0, OPT_FLAG, &given.json, NULL,
	  "write JSON: everything, also what did not change", 0, 0 },
	BYTES_OPTION(&given.raw_bytes),
	{ "top", 0, OPT_COUNT, &given.top, "N", "show the N largest stacks (10)", 0, 1000000 },
	COLOR_OPTION(&given.color),
};

static int run(char **sides, size_t count)
{
	struct limit limit = { 0 };
	struct err e = { 0 };

	if (count != 2)
		err_set(&e, "diff needs two jobs: memtrace diff A B");
	else
		limit_parse(&limit, "fail-over", given.fail_over, &e);
	return e.text[0] ? command_fail(STATUS_USAGE, &e) : diff(sides, &limit, &given);
}

const struct command cmd_diff = {
	.name = "diff",
	.summary = "show what changed between two jobs",
	.usage = "[OPTIONS] A B",
	.about =
		"Shows what grew and what shrank from A to B. Each is a file, a directory of traces (its latest\n"
		"run), DIR@RUN (one of its runs), DIR@all (all of its runs), or several of these, separated by commas.\n"
		"Of several runs the medians are compared; a difference within their spread is not a change.",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
