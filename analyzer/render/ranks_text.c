#include "render/ranks_text.h"

#include "report/rank_groups.h"
#include "render/table.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS_SHOWN 16 /* ranks; of a larger job only those that matter() selects */
#define OUTLIERS_SHOWN 8
#define RUNS_SHOWN 6 /* runs of numbers in a list */
#define WARNINGS_SHOWN 8

static void cell_size(struct page *p, struct table *t, bytes size)
{
	struct buf b = { 0 };

	page_size(p, &b, size);
	table_cell(t, PAINT_NONE, b.text);
	buf_release(&b);
}

__attribute__((format(printf, 2, 3))) static void cell(struct table *t, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = xvasprintf(format, args);
	va_end(args);
	table_cell(t, PAINT_NONE, text);
	free(text);
}

#define UUID_END 6 /* last digits of a UUID, which identify a GPU */

/* "3", or "3 0a1b2c" if the number is not the same GPU for all ranks. */
static void cell_gpu(struct table *t, const struct rank *r, int with_uuid)
{
	size_t length = r->gpu_uuid ? strlen(r->gpu_uuid) : 0;

	if (with_uuid && length > UUID_END)
		cell(t, "%d %s", r->device, r->gpu_uuid + length - UUID_END);
	else
		cell(t, "%d", r->device);
}

static void add_row(struct page *p, struct table *t, const struct rank *r, int with_uuid)
{
	if (r->rank == NO_RANK)
		table_cell(t, PAINT_NONE, "-");
	else
		cell(t, "%d", r->rank);
	table_cell(t, PAINT_NONE, r->coordinates);
	table_cell(t, PAINT_NONE, r->host);
	cell_gpu(t, r, with_uuid);
	table_cell(t, r->end == END_OOM ? PAINT_ALARM : PAINT_NONE, end_name(r->end));
	cell_size(p, t, r->peak_allocated);
	cell_size(p, t, r->peak_reserved);
	cell_size(p, t, r->peak_device);
	if (r->peak.step && !r->peak.unrecorded)
		cell(t, "%u", r->peak.step);
	else
		table_cell(t, PAINT_NONE, "?");
	table_cell(t, PAINT_NONE, r->simulated ? "simulated" : "");
}

static const struct column rank_columns[] = {
	{ "rank", ALIGN_RIGHT, 0, 0 },     { "at", ALIGN_LEFT, 4, 0 },
	{ "host", ALIGN_LEFT, 6, 0 },      { "gpu", ALIGN_RIGHT, 5, 0 },
	{ "end", ALIGN_LEFT, 0, 0 },       { "allocated", ALIGN_RIGHT, 0, 0 },
	{ "reserved", ALIGN_RIGHT, 2, 0 }, { "device", ALIGN_RIGHT, 1, 0 },
	{ "step", ALIGN_RIGHT, 3, 0 },     { "", ALIGN_LEFT, 0, 0 },
};

static int is_outlier(const struct ranks *job, size_t i)
{
	for (size_t k = 0; k < job->outlier_count && k < OUTLIERS_SHOWN; k++)
		if (job->outliers[k].rank == i)
			return 1;
	return 0;
}

/* Is the rank shown? Of many ranks, those that ran out of memory, outliers, and the largest of each
 * group. */
static int matters(const struct report *r, size_t i, size_t *died)
{
	const struct ranks *job = r->as_job;
	size_t group;

	if (r->count <= ROWS_SHOWN)
		return 1;
	if (r->ranks[i].oom_count && (*died)++ < OUTLIERS_SHOWN)
		return 1;
	if (!job)
		return 0;
	group = job->positions[i].group;
	return is_outlier(job, i) ||
	       (group != NO_GROUP && group < ROWS_SHOWN && job->groups[group].worst == i);
}

void ranks_text_table(struct page *p, const struct report *r)
{
	struct table t = { .columns = rank_columns, .column_count = ARRAY_SIZE(rank_columns) };
	const struct rank *worst = report_worst(r);
	int with_uuid = report_ordinals_differ(r);
	size_t died = 0, shown = 1;

	add_row(p, &t, worst, with_uuid);
	for (size_t i = 0; i < r->count; i++)
		if (&r->ranks[i] != worst && matters(r, i, &died)) {
			add_row(p, &t, &r->ranks[i], with_uuid);
			shown++;
		}
	table_put(p, &t);
	if (shown < r->count)
		buf_addf(p->out, "      %zu more: memtrace report --json\n", r->count - shown);
}

/* The numbers of a group's ranks. */
static void add_members(struct buf *b, const struct report *r, const struct rank_group *g)
{
	int *numbers = xcalloc(g->count, sizeof(*numbers));

	for (size_t i = 0; i < g->count; i++)
		numbers[i] = r->ranks[g->ranks[i]].rank;
	ranks_list(b, numbers, g->count, RUNS_SHOWN);
	free(numbers);
}

static void put_groups(struct page *p, const struct report *r)
{
	static const struct column columns[] = {
		{ "stage", ALIGN_RIGHT, 0, 0 },  { "ranks", ALIGN_RIGHT, 0, 0 },
		{ "median", ALIGN_RIGHT, 0, 0 }, { "least", ALIGN_RIGHT, 2, 0 },
		{ "most", ALIGN_RIGHT, 1, 0 },   { "by rank", ALIGN_RIGHT, 3, 0 },
		{ "which", ALIGN_LEFT, 4, 0 },   { "", ALIGN_LEFT, 0, 0 },
	};
	struct table t = { .columns = columns, .column_count = ARRAY_SIZE(columns) };
	const struct ranks *job = r->as_job;

	if (job->group_count < 2)
		return;
	buf_puts(p->out, job->is_placed ? "\npeak of tensors by pipeline stage\n"
					: "\npeak of tensors, ranks that are alike together\n");
	for (size_t i = 0; i < job->group_count && i < 2 * ROWS_SHOWN; i++) {
		const struct rank_group *g = &job->groups[i];
		struct buf which = { 0 };

		add_members(&which, r, g);
		if (g->stage == NO_RANK)
			table_cell(&t, PAINT_NONE, "");
		else
			cell(&t, "%d", g->stage);
		cell(&t, "%zu", g->count);
		cell_size(p, &t, g->median[LEVEL_ALLOCATED]);
		cell_size(p, &t, g->least);
		cell_size(p, &t, g->most);
		cell(&t, "%d", r->ranks[g->worst].rank);
		table_cell(&t, PAINT_NONE, which.text);
		table_cell(&t, PAINT_NONE, r->ranks[g->worst].simulated ? "simulated" : "");
		buf_release(&which);
	}
	table_put(p, &t);
	if (job->group_count > 2 * ROWS_SHOWN)
		buf_addf(p->out, "      %zu more: memtrace report --json\n",
			 job->group_count - 2 * ROWS_SHOWN);
}

static void put_outlier(struct page *p, const struct report *r, const struct outlier *o)
{
	const struct rank *x = &r->ranks[o->rank];
	struct buf b = { 0 };

	buf_addf(&b, "rank %d", x->rank);
	if (x->coordinates)
		buf_addf(&b, " (%s)", x->coordinates);
	buf_puts(&b, ": ");
	page_size(p, &b, o->value);
	buf_addf(&b, " %s, the median of those that it should be like is ", level_key(o->level));
	page_size(p, &b, o->median);
	if (o->step)
		buf_addf(&b, ", from step %u on", o->step);
	if (x->simulated)
		buf_puts(&b, ", simulated");
	page_field(p, "outlier", b.text, 0);
	buf_release(&b);
}

static void put_missing(struct page *p, const struct ranks *job)
{
	struct buf b = { 0 };

	if (!job->missing_count)
		return;
	buf_puts(&b, job->missing_count > 1 ? "ranks " : "rank ");
	ranks_list(&b, job->missing, job->missing_count, RUNS_SHOWN);
	buf_addf(&b, " of %d: there is no trace of %s here", job->world,
		 job->missing_count > 1 ? "them" : "it");
	page_field(p, "missing", b.text, 0);
	buf_release(&b);
}

/* `numbers`: ranks, or process ids of processes without a rank. */
static void put_sharers(struct page *p, const struct rank *first, const int *numbers, size_t count)
{
	struct buf b = { 0 };

	buf_puts(&b, first->rank == NO_RANK ? "processes " : "ranks ");
	ranks_list(&b, numbers, count, RUNS_SHOWN);
	buf_addf(&b, " are on one GPU, %s of host %s", first->gpu_uuid, first->host);
	if (first->simulated)
		buf_puts(&b, ", simulated");
	page_field(p, "shared", b.text, 0);
	buf_release(&b);
}

static void put_shared(struct page *p, const struct report *r)
{
	int *numbers = xcalloc(r->count + 1, sizeof(*numbers));
	char *told = xcalloc(r->count + 1, 1);

	for (size_t i = 0; i < r->count; i++) {
		const struct rank *first = &r->ranks[i];
		size_t n = 0;

		for (size_t k = i + 1; k < r->count && !told[i]; k++) {
			const struct rank *x = &r->ranks[k];
			int number = x->rank == NO_RANK ? (int)x->pid : x->rank;

			if (!rank_shares_gpu(first, x))
				continue;
			if (!n)
				numbers[n++] =
					first->rank == NO_RANK ? (int)first->pid : first->rank;
			if (number != numbers[n - 1])
				numbers[n++] = number;
			told[k] = 1;
		}
		if (n > 1)
			put_sharers(p, first, numbers, n);
	}
	free(told);
	free(numbers);
}

void ranks_text(struct page *p, const struct report *r)
{
	const struct ranks *job = r->as_job;

	if (r->count > 1) {
		ranks_text_table(p, r);
		if (job)
			put_groups(p, r);
		put_shared(p, r);
	}
	if (job) {
		for (size_t i = 0; i < job->outlier_count && i < OUTLIERS_SHOWN; i++)
			put_outlier(p, r, &job->outliers[i]);
		if (job->outlier_count > OUTLIERS_SHOWN)
			buf_addf(p->out, "%*sand %zu more\n", PAGE_INDENT, "",
				 job->outlier_count - OUTLIERS_SHOWN);
		put_missing(p, job);
		for (size_t i = 0; i < job->unreadable_count; i++)
			page_field(p, "unreadable", job->unreadable[i].why, 0);
	}
	if (r->count > 1 || (job && (job->missing_count || job->unreadable_count)))
		buf_puts(p->out, "\n");
}

static int has_warning(const struct rank *r, const char *text)
{
	for (size_t i = 0; i < r->warning_count; i++)
		if (!strcmp(r->warnings[i], text))
			return 1;
	return 0;
}

/* Has a rank before this one the same warning? */
static int is_repeated(const struct report *r, const struct rank *shown, size_t rank,
		       size_t warning)
{
	const char *text = r->ranks[rank].warnings[warning];

	for (size_t i = 0; i < rank; i++)
		if (&r->ranks[i] != shown && has_warning(&r->ranks[i], text))
			return 1;
	return 0;
}

static void put_warning(struct page *p, const struct report *r, const struct rank *shown,
			const char *text)
{
	int *numbers = xcalloc(r->count, sizeof(*numbers));
	struct buf b = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		if (&r->ranks[i] != shown && has_warning(&r->ranks[i], text) &&
		    (!n || numbers[n - 1] != r->ranks[i].rank))
			numbers[n++] = r->ranks[i].rank;
	if (numbers[0] != NO_RANK) {
		buf_puts(&b, n > 1 ? "ranks " : "rank ");
		ranks_list(&b, numbers, n, RUNS_SHOWN);
		buf_puts(&b, ": ");
	}
	buf_puts(&b, text);
	page_field(p, "warning", b.text, 0);
	buf_release(&b);
	free(numbers);
}

void ranks_text_warnings(struct page *p, const struct report *r, const struct rank *shown)
{
	size_t put = 0;

	for (size_t i = 0; i < r->count && put <= WARNINGS_SHOWN; i++)
		for (size_t k = 0; &r->ranks[i] != shown && k < r->ranks[i].warning_count; k++) {
			if (is_repeated(r, shown, i, k))
				continue;
			if (put++ == WARNINGS_SHOWN) {
				page_field(p, "warning",
					   "and more: memtrace report --json shows them", 0);
				break;
			}
			put_warning(p, r, shown, r->ranks[i].warnings[k]);
		}
}

/* Adds a cell and empties its text. */
static void add_taken(struct table *t, struct buf *b)
{
	table_cell(t, PAINT_NONE, b->text ? b->text : "");
	buf_release(b);
}

static void put_run(struct page *p, struct table *t, const struct recorded_run *run)
{
	time_t began = (time_t)(run->began_ns / 1000000000);
	struct buf b = { 0 };
	struct tm when;
	char date[64] = "";

	buf_addf(&b, "--run %s", run->choice);
	add_taken(t, &b);
	buf_add_clean(&b, (struct str){ run->name, strlen(run->name) });
	add_taken(t, &b);
	if (localtime_r(&began, &when))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &when);
	table_cell(t, PAINT_NONE, date);
	buf_addf(&b, "%zu", run->ranks);
	if (run->world_size > (int)run->ranks)
		buf_addf(&b, " of %d", run->world_size);
	add_taken(t, &b);
	buf_puts(&b, run_end_title(run->end));
	if (run->end == RUN_OUT_OF_MEMORY && run->traces > 1)
		buf_addf(&b, " (%zu of %zu)", run->ooms, run->traces);
	table_cell(t, run->end == RUN_OUT_OF_MEMORY ? PAINT_ALARM : PAINT_NONE, b.text);
	buf_release(&b);
	page_size(p, &b, run->peak_allocated);
	add_taken(t, &b);
	page_size(p, &b, run->peak_device);
	add_taken(t, &b);
	table_cell(t, PAINT_NONE, run->is_latest ? "shown without --run" : "");
}

void runs_text(const struct recorded_run *runs, size_t count, const struct style *style,
	       struct buf *out)
{
	static const struct column columns[] = {
		{ "choose by", ALIGN_LEFT, 0, 0 }, { "run", ALIGN_LEFT, 3, 1 },
		{ "began", ALIGN_LEFT, 2, 0 },     { "ranks", ALIGN_RIGHT, 0, 0 },
		{ "ended", ALIGN_LEFT, 0, 0 },     { "tensors", ALIGN_RIGHT, 0, 0 },
		{ "device", ALIGN_RIGHT, 1, 0 },   { "", ALIGN_LEFT, 0, 0 },
	};
	struct page p = { .out = out, .style = style };
	struct table t = { .columns = columns, .column_count = ARRAY_SIZE(columns) };

	for (size_t i = 0; i < count; i++)
		put_run(&p, &t, &runs[i]);
	table_put(&p, &t);
}
