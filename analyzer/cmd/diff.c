/* memtrace diff: the changes between two jobs. */
#include "cmd/command.h"
#include "cmd/diff_inputs.h"
#include "util/limit.h"
#include "json/diff_json.h"
#include "render/diff_text.h"
#include "util/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *fail_over;
	int json, raw_bytes, color, top, rank;
};

/* Is a run of the side known to have ended since it ran out of memory? */
static int is_ended_by_failure(const struct diff_side *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (diff_has_failed(s->ranks[i]) && !rank_why_unknown_death(s->ranks[i]))
			return 1;
	return 0;
}

/* That only B ran out of memory, which exceeds every limit; names of the peaks that grew by more
 * than the limit, beyond the spread. "": none. */
static void find_over(const struct diff *c, const struct limit *limit, int raw, struct buf *over)
{
	if (is_ended_by_failure(&c->side[SIDE_B]) && !diff_side_failed(&c->side[SIDE_A], NULL))
		buf_puts(over, "B ran out of memory, and A did not");
	for (size_t i = 0; i < c->count; i++) {
		const struct diff_item *x = &c->items[i];
		bytes allowed = limit_of(limit, x->side[SIDE_A].median);
		int digits;

		if (x->kind != DIFF_PEAK || !x->is_changed || diff_item_change(x) <= allowed)
			continue;
		digits = size_digits(diff_item_change(x), allowed, raw);
		buf_addf(over, "%speak of %s: +", over->length ? "; " : "", x->title);
		size_add_digits(over, diff_item_change(x), digits);
		buf_puts(over, ", at most ");
		size_add_digits(over, allowed, digits);
	}
}

/* Why the peaks of a side may be lower than the job's; NULL: they are the job's. A job that ran
 * out of memory might have needed more: of A that is no reason, if B needed no more than A had. */
static const char *why_unknown(const struct diff *c)
{
	if (is_ended_by_failure(&c->side[SIDE_B]))
		return "whether a peak grew past the limit is not known: both jobs ran out of "
		       "memory";
	if (diff_side_failed(&c->side[SIDE_B], NULL))
		return "whether a peak grew past the limit is not known: an allocation of B "
		       "failed, and the file does not tell whether that ended the job";
	for (int s = 0; s < SIDES; s++)
		for (size_t i = 0; i < c->side[s].count; i++)
			if (peak_scope_why_lower(c->side[s].ranks[i]->peak_of))
				return "whether a peak grew past the limit is not known: a snapshot "
				       "has not the whole history";
	return NULL;
}

static int is_changed(const struct diff *c)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->items[i].is_changed)
			return 1;
	return 0;
}

static int print(const struct diff *c, char **sides, const struct limit *limit,
		 const struct options *o)
{
	struct style style = term_style((enum color_when)o->color);
	struct buf out = { 0 }, over = { 0 };
	const char *unknown, *exceeded;
	int status;

	style.raw_bytes = o->raw_bytes;
	style.top = o->top;
	if (limit->is_given)
		find_over(c, limit, o->raw_bytes, &over);
	exceeded = over.length ? over.text : "";
	unknown = limit->is_given && !over.length ? why_unknown(c) : NULL;
	if (o->json)
		diff_json(c, limit->is_given && !unknown, over.length != 0, &out);
	else
		diff_text(c, limit->is_given ? exceeded : NULL, unknown, &style, &out);
	if (!o->json && is_changed(c))
		command_add_page(&out, &(struct buf){ 0 }, sides, SIDES);
	status = command_print(out.text, out.length);
	if (!status && over.length)
		status = STATUS_NEGATIVE;
	if (!status && unknown)
		status = STATUS_USAGE;
	buf_release(&out);
	buf_release(&over);
	return status;
}

static int diff(char **sides, const struct limit *limit, const struct options *o)
{
	struct diff_inputs d;
	struct buf notes = { 0 };
	struct err e = { 0 };
	int status = diff_inputs_read(&d, sides, o->rank, &notes, &e);

	if (notes.length)
		fputs(notes.text, stderr);
	status = status < 0 ? command_fail(STATUS_USAGE, &e) : print(&d.diff, sides, limit, o);
	diff_inputs_release(&d);
	buf_release(&notes);
	return status;
}

static struct options given = { .top = 10, .rank = NO_RANK };
static const struct opt rows[] = {
	{ "rank", 0, OPT_COUNT, &given.rank, "N",
	  "compare rank N of both jobs (default: the rank that `report` shows of each)", 0,
	  INT32_MAX },
	{ "fail-over", 0, OPT_TEXT, &given.fail_over, "SIZE|PERCENT",
	  "exit with status 1 if a peak grew by more, or if only B ran out of memory", 0, 0 },
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
		"Shows what grew and what shrank from A to B. Each is a file, a directory of traces, DIR@RUN (one of its\n"
		"runs), DIR@all (all of its runs), or several of these, separated by commas.\n" ABOUT_ATTEMPT
		"\n"
		"Of several runs the medians are compared; a difference within their spread is not a change.",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
