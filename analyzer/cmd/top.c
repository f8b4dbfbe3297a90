/* memtrace top: the traced processes of a directory, while they run. */
#include "cmd/command.h"
#include "live/live_metrics.h"
#include "render/page.h"
#include "top/follow_text.h"
#include "top/frame_json.h"
#include "top/frame_text.h"
#include "top/screen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ONCE_TAILS_S 2.0 /* no later frame could have the rest */

static struct {
	const char *metrics, *filter;
	int once, json, interval, order, all, silent, color, reversed;
} given = { .interval = 2, .silent = 30 };

static const struct opt rows[] = {
	{ "once", 0, OPT_FLAG, &given.once, NULL, "print one frame and end", 0, 0 },
	{ "json", 0, OPT_FLAG, &given.json, NULL,
	  "write JSON, an object on a line for each frame, until no process runs", 0, 0 },
	{ "interval", 'n', OPT_COUNT, &given.interval, "SECONDS", "time between two frames (2)", 1,
	  86400 },
	{ "prometheus", 0, OPT_TEXT, &given.metrics, "FILE",
	  "also write FILE with each frame, as metrics for Prometheus", 0, 0 },
	{ "sort", 0, OPT_CHOICE, &given.order, "rank|state|allocated|device|peak|growth|left|age",
	  "the order of the rows (rank)", 0, 0 },
	{ "reverse", 'r', OPT_FLAG, &given.reversed, NULL, "reverse the order", 0, 0 },
	{ "filter", 0, OPT_TEXT, &given.filter, "WORDS",
	  "show rows with all of these words: rank:3, state:oom, host:NAME, ...", 0, 0 },
	{ "all", 0, OPT_FLAG, &given.all, NULL,
	  "also show processes of earlier runs that have ended", 0, 0 },
	{ "silent", 0, OPT_COUNT, &given.silent, "SECONDS",
	  "a process without an event for so long is called silent (30)", 1, 1 << 30 },
	COLOR_OPTION(&given.color),
};

static struct row_choice choice(void)
{
	return (struct row_choice){ .order = (enum row_order)given.order,
				    .is_reversed = given.reversed,
				    .all = given.all,
				    .filter = given.filter };
}

/* A process of an earlier attempt of which it is not known whether it runs is not waited for. */
static int is_of_earlier(const struct folder *f, const struct live_process *p)
{
	return p->state == LIVE_UNKNOWN && !folder_is_of_latest(f, p);
}

static int runs(const struct folder *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (!live_process_is_over(&f->list[i]) && !is_of_earlier(f, &f->list[i]))
			return 1;
	return 0;
}

/* Names the processes of which it is not known whether they run, after the last frame. */
static void print_given_up(const struct folder *f)
{
	const struct live_process *first = NULL;
	size_t count = 0;
	struct buf b = { 0 };

	for (size_t i = 0; i < f->count; i++) {
		const struct live_process *p = &f->list[i];

		if (p->state != LIVE_UNKNOWN || is_of_earlier(f, p))
			continue;
		first = first ? first : p;
		count++;
	}
	if (first)
		follow_given_up(&b, first, count - 1);
	if (b.length)
		err_print("%s", b.text);
	buf_release(&b);
}

static int write_metrics(void *context, struct folder *f, struct err *e)
{
	(void)context;
	return given.metrics ? live_metrics_write(f, given.metrics, e) : 0;
}

static int print_frame(const struct folder *f)
{
	struct style style = term_style((enum color_when)given.color);
	struct row_choice c = choice();
	struct buf out = { 0 };
	struct page p = { .out = &out, .style = &style };
	int status;

	if (given.json)
		frame_json(f, &c, &out);
	else
		frame_text(&p, f, &c);
	status = command_print(out.text ? out.text : "", out.length);
	buf_release(&out);
	return status;
}

/* Frames without a screen: one, or one after the other. With --prometheus alone nothing is printed.
 */
static int print_frames(struct folder *f, int is_quiet)
{
	struct timespec pause = { .tv_sec = given.interval };
	struct err e = { 0 };
	int status = STATUS_SUCCESS;
	double budget = ONCE_TAILS_S;

	for (;;) {
		folder_read_tails(f, budget);
		if (write_metrics(NULL, f, &e) < 0)
			return command_fail(STATUS_USAGE, &e);
		if (!is_quiet)
			status = print_frame(f);
		if (status || given.once)
			return status;
		if (!is_quiet && !runs(f)) {
			print_given_up(f);
			return STATUS_SUCCESS;
		}
		nanosleep(&pause, NULL);
		budget = given.interval * SCREEN_SHARE;
		if (folder_update(f, &e) < 0)
			return command_fail(STATUS_USAGE, &e);
	}
}

static int show(struct folder *f)
{
	int is_terminal = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	struct screen_options o = { .interval_s = given.interval,
				    .style = term_style((enum color_when)given.color),
				    .choice = choice(),
				    .updated = write_metrics };
	struct err e = { 0 };

	if (is_terminal && !given.once && !given.json) {
		if (write_metrics(NULL, f, &e) < 0 || screen_run(f, &o, stdout, stdin, &e) < 0)
			return command_fail(STATUS_USAGE, &e);
		return STATUS_SUCCESS;
	}
	if (!given.json && !given.metrics)
		given.once = 1;
	return print_frames(f, !given.json && !given.once);
}

/* The processors belong to the jobs. */
#define NICE 10

static int run(char **paths, size_t count)
{
	char *found = count ? xstrdup(paths[0]) : folder_default();
	struct folder f = { 0 };
	struct err e = { 0 };
	int status;

	if (count > 1)
		err_set(&e, "top takes one directory of traces");
	else if (!found)
		err_set(&e,
			"there is no directory memtrace or memtrace-* with traces here: start a "
			"job with memtrace run -- COMMAND, or name the directory of its traces");
	setpriority(PRIO_PROCESS, 0, NICE);
	if (e.text[0] || folder_open(&f, found, given.silent, &e) < 0)
		status = command_fail(STATUS_USAGE, &e);
	else
		status = show(&f);
	folder_release(&f);
	free(found);
	return status;
}

const struct command cmd_top = {
	.name = "top",
	.summary = "show the memory of running jobs",
	.usage = "[OPTIONS] [DIR]",
	.about = "Shows the traced processes of a directory while they run: the memory of each,\n"
		 "its growth, and which of them ended. h shows the keys. Without DIR, it is\n"
		 "MEMTRACE_DIR, or if that is not set the newest of memtrace and memtrace-* here.",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
