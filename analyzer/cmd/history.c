/* memtrace history: the runs that are remembered in one SQLite file. */
#include "cmd/command.h"
#include "cmd/trace_records.h"
#include "history/history_json.h"
#include "history/history_text.h"
#include "history/trend.h"
#include "record/record_lines.h"
#include "record/record_merge.h"
#include "session/session.h"
#include "util/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAYS 7 /* that trend compares with those before */

struct options {
	const char *file, *job, *run;
	int days, json, raw_bytes, color; /* days 0: not given */
};

static struct options given;

/* The runs of records that come sorted by run and restart. */
struct collecting {
	struct history_run *runs;
	size_t count, room;
};

static int collect(void *context, struct str line)
{
	struct collecting *c = context;
	struct err e = { 0 };
	json_t *record = record_parse(line.at, line.length - 1, &e);
	struct history_run run = history_run_of(record, given.job);
	struct history_run *last = c->count ? &c->runs[c->count - 1] : NULL;

	if (last && run.run && last->run && !strcmp(run.run, last->run) &&
	    run.restart == last->restart && run.simulated == last->simulated) {
		history_run_add(last, record);
		history_run_release(&run);
	} else {
		c->runs = grow(c->runs, c->count, &c->room, sizeof(*c->runs));
		c->runs[c->count++] = run;
	}
	json_decref(record);
	return 0;
}

/* The context of take_lines(). */
struct taking {
	struct record_merge *merge;
	struct err *e;
};

static int take_lines(void *context, struct str lines)
{
	struct taking *t = context;
	int status = 0;

	for (const char *at = lines.at, *end; at < lines.at + lines.length && !status;
	     at = end + 1) {
		size_t left = (size_t)(lines.at + lines.length - at);
		json_t *record;

		end = memchr(at, '\n', left);
		record = record_parse(at, (size_t)(end - at), t->e);
		status = record ? record_merge_add(t->merge, record,
						   (struct str){ at, (size_t)(end - at) }, t->e)
				: -1;
		json_decref(record);
	}
	return status;
}

static int read_runs(struct collecting *c, char **paths, size_t count, struct buf *notes,
		     struct err *e)
{
	struct record_merge *m = record_merge_new(e);
	struct taking t = { m, e };
	const struct trace_records_options options = {
		.run = given.run, .estimate = 1, .on = take_lines, .context = &t
	};
	int status = m ? 0 : -1;

	for (size_t i = 0; i < count && !status; i++) {
		int found = path_is_records(paths[i])
				    ? record_each(paths[i], record_merge_add, m, notes, e)
				    : trace_records(&paths[i], 1, &options, notes, e);

		status = found < 0 ? -1 : 0;
	}
	if (!status)
		status = record_merge_each(m, collect, c, e);
	if (!status && !c->count)
		status = err_set(e, "%s: there are no records here", paths[0]);
	record_merge_free(m);
	return status;
}

static int add(struct run_store *h, char **paths, size_t count, struct buf *out, struct err *e)
{
	struct collecting c = { 0 };
	struct buf notes = { 0 };
	int status = read_runs(&c, paths, count, &notes, e);

	if (!status)
		status = history_open(h, given.file, 0, e);
	if (!status)
		status = history_write(h, c.runs, c.count, e);
	if (notes.length)
		fputs(notes.text, stderr);
	for (size_t i = 0; i < c.count && !status && !given.json; i++) {
		buf_addf(out, "run %lld: %s, %lld %s, in ", (long long)c.runs[i].id, c.runs[i].run,
			 (long long)c.runs[i].ranks, c.runs[i].ranks == 1 ? "rank" : "ranks");
		buf_add_clean(out, (struct str){ h->path, strlen(h->path) });
		buf_puts(out, "\n");
	}
	if (!status && given.json)
		history_list_json(c.runs, c.count, out);
	buf_release(&notes);
	history_runs_release(c.runs, c.count);
	return status;
}

/* The newest run of the same job that is of the other kind. */
static struct history_run *counterpart(struct history_run *runs, size_t count,
				       const struct history_run *r)
{
	struct history_run *found = NULL;

	for (size_t i = 0; i < count; i++)
		if (!runs[i].simulated != !r->simulated && runs[i].job && r->job &&
		    !strcmp(runs[i].job, r->job))
			found = &runs[i];
	return found;
}

/* The runs that the actions below are about. */
struct stored_runs {
	struct run_store *store;
	struct history_run *list;
	size_t count;
	struct style style;
};

static int show(const struct stored_runs *runs, char **names, struct buf *out, struct err *e)
{
	struct history_run *r = history_find(runs->list, runs->count, names[0], e), *other;

	if (!r || history_parts(runs->store, r, e) < 0)
		return -1;
	other = counterpart(runs->list, runs->count, r);
	if (other && history_parts(runs->store, other, e) < 0)
		return -1;
	if (given.json)
		history_pair_json(r, other, out);
	else
		history_show_text(r, other, &runs->style, out);
	return 0;
}

static int compare(const struct stored_runs *runs, char **names, struct buf *out, struct err *e)
{
	struct history_run *a = history_find(runs->list, runs->count, names[0], e),
			   *b = a ? history_find(runs->list, runs->count, names[1], e) : NULL;

	if (!b || history_parts(runs->store, a, e) < 0 ||
	    (a != b && history_parts(runs->store, b, e) < 0))
		return -1;
	if (given.json)
		history_pair_json(a, b, out);
	else
		history_compare_text(a, b, &runs->style, out);
	return 0;
}

static int list(const struct stored_runs *runs, char **names, struct buf *out, struct err *e)
{
	(void)names;
	(void)e;
	if (given.json)
		history_list_json(runs->list, runs->count, out);
	else
		history_list_text(runs->list, runs->count, &runs->style, out);
	return 0;
}

static int trend(const struct stored_runs *runs, char **names, struct buf *out, struct err *e)
{
	struct job_trend *trends;
	size_t n;
	int status = 0, days = given.days ? given.days : DAYS;

	(void)names;
	trends_make(&trends, &n, runs->list, runs->count, days);
	if (!n)
		status = err_set(e, "%s has no run that is over", runs->store->path);
	else if (given.json)
		history_trend_json(trends, n, days, out);
	else
		history_trend_text(trends, n, days, &runs->style, out);
	trends_release(trends, n);
	return status;
}

/* The actions about stored runs, and how many runs each is given by name. */
static const struct history_action {
	const char *name;
	size_t names;
	int (*run)(const struct stored_runs *runs, char **names, struct buf *out, struct err *e);
} actions[] = {
	{ "list", 0, list },
	{ "show", 1, show },
	{ "compare", 2, compare },
	{ "trend", 0, trend },
};

static int act_on_runs(struct run_store *h, const struct history_action *a, char **names,
		       struct buf *out, struct err *e)
{
	struct stored_runs runs = { .store = h, .style = term_style((enum color_when)given.color) };
	int status = history_open(h, given.file, 1, e);

	runs.style.raw_bytes = given.raw_bytes;
	if (!status)
		status = history_list(h, &runs.list, &runs.count, e);
	if (!status && given.job) {
		runs.count = history_keep_job(runs.list, runs.count, given.job);
		if (!runs.count)
			status = err_set(e, "%s has no run of job \"%s\"", h->path, given.job);
	}
	if (!status)
		status = a->run(&runs, names, out, e);
	history_runs_release(runs.list, runs.count);
	return status;
}

/* Options of one action are refused with the others. */
static int check_options(const char *action, struct err *e)
{
	const struct {
		const char *name, *action;
		int is_given;
	} own[] = { { "--days", "trend", given.days != 0 }, { "--run", "add", given.run != NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (own[i].is_given && strcmp(action, own[i].action) != 0)
			return err_set(e, "%s is not for history %s; it is for history %s",
				       own[i].name, action, own[i].action);
	return 0;
}

static int act(char **words, size_t count, struct buf *out, struct err *e)
{
	struct run_store h = { .path = NULL };
	const char *names[ARRAY_SIZE(actions) + 2] = { "add" };
	const char *near;
	int status = -1;

	if (!count)
		return err_set(e, "history needs one of add, list, show, compare, trend");
	if (!strcmp(words[0], "add")) {
		if (check_options("add", e) < 0)
			return -1;
		status = count < 2 ? err_set(e, "history add needs traces or records")
				   : add(&h, words + 1, count - 1, out, e);
		history_close(&h);
		return status;
	}
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		names[i + 1] = actions[i].name;
		if (strcmp(words[0], actions[i].name) != 0)
			continue;
		if (check_options(words[0], e) < 0)
			return -1;
		if (count - 1 != actions[i].names)
			return err_set(e, "history %s needs %zu %s, not %zu", words[0],
				       actions[i].names, actions[i].names == 1 ? "run" : "runs",
				       count - 1);
		status = act_on_runs(&h, &actions[i], words + 1, out, e);
		history_close(&h);
		return status;
	}
	near = nearest(words[0], names);
	return err_set(e, "history has no \"%s\": add, list, show, compare, trend%s%s", words[0],
		       near ? "; did you mean " : "", near ? near : "");
}

static const struct opt rows[] = {
	{ "file", 0, OPT_TEXT, &given.file, "FILE",
	  "the history (~/.local/share/memtrace/history.sqlite)", 0, 0 },
	{ "job", 0, OPT_TEXT, &given.job, "NAME",
	  "add: the name of the runs' job; otherwise only the runs of this job count", 0, 0 },
	{ "days", 0, OPT_COUNT, &given.days, "N",
	  "trend: compare the newest N days with the N before (7)", 1, 36500 },
	RUN_OPTION(&given.run),
	BYTES_OPTION(&given.raw_bytes),
	{ "json", 0, OPT_FLAG, &given.json, NULL, "write JSON", 0, 0 },
	COLOR_OPTION(&given.color),
};

static int run(char **words, size_t count)
{
	struct buf out = { 0 };
	struct err e = { 0 };
	int status = act(words, count, &out, &e) < 0 ? command_fail(STATUS_USAGE, &e)
						     : command_print(out.text, out.length);

	buf_release(&out);
	return status;
}

const struct command cmd_history = {
	.name = "history",
	.summary = "store runs, and compare them with earlier runs and with the estimate",
	.usage = "[OPTIONS] add TRACE|RECORDS... | list | show RUN | compare RUN RUN | trend",
	.about = "Stores the memory that runs needed, in one SQLite file.\n"
		 "RUN is a number of the list, or a run's id (its latest restart).",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.words = "add|list|show|compare|trend",
	.run = run,
};
