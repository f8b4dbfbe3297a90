/* The ranks of a run, which may come from its nodes one by one. */
#include "history/history.h"

#include "report/report.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

/* The end of a run of several ranks is the first of this list that one of them has. No end is
 * the last. */
static int importance(const char *end)
{
	static const char *const ends[] = { "oom", "killed", "running", "unknown", "exit" };
	size_t i = 0;

	if (!end)
		return -1;
	while (i < ARRAY_SIZE(ends) && strcmp(end, ends[i]) != 0)
		i++;
	return (int)(ARRAY_SIZE(ends) - i);
}

static int is_oom(const char *end)
{
	return end && !strcmp(end, "oom");
}

/* The verdict is of the rank with the highest peak, but of a run that ran out of memory it is of a
 * rank that did. */
static const char *verdict_of(const struct history_run *r, const char *end)
{
	if (!is_oom(end))
		return r->members[r->worst].verdict;
	for (size_t i = 0; i < r->member_count; i++)
		if (is_oom(r->members[i].end) && r->members[i].verdict)
			return r->members[i].verdict;
	return NULL;
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

void history_run_sum(struct history_run *r)
{
	const struct history_rank *worst;
	const char *end = NULL;

	r->ranks = (int64_t)r->member_count;
	r->duration_ms = 0;
	r->started_ns = UNKNOWN_BYTES;
	r->worst = 0;
	for (size_t i = 0; i < r->member_count; i++) {
		const struct history_rank *x = &r->members[i];

		history_run_turn_worst(r, i);
		r->duration_ms = larger_of(r->duration_ms, x->duration_ms);
		if (x->started_ns > 0 && (r->started_ns <= 0 || x->started_ns < r->started_ns))
			r->started_ns = x->started_ns;
		if (importance(x->end) > importance(end))
			end = x->end;
	}
	worst = &r->members[r->worst];
	r->steps = worst->steps;
	r->allocated_bytes = worst->allocated_bytes;
	r->reserved_bytes = worst->reserved_bytes;
	r->device_bytes = worst->device_bytes;
	r->estimated_allocated = worst->estimated_allocated;
	r->estimated_reserved = worst->estimated_reserved;
	r->estimated_device = worst->estimated_device;
	free(r->verdict);
	r->verdict = copy(verdict_of(r, end));
	free(r->end);
	r->end = copy(end);
}

static int by_device(const void *first, const void *second)
{
	const struct history_rank *a = first, *b = second;
	int order = ORDER(a->rank, b->rank);

	return order ? order : ORDER(a->device, b->device);
}

/* The order in which record_merge_each() gives the records of a run. */
static int by_rank(const void *first, const void *second)
{
	const struct history_rank *a = first, *b = second;
	int order = by_device(a, b);

	if (!order)
		order = ORDER(a->started_ns, b->started_ns);
	if (!order)
		order = ORDER(a->pid, b->pid);
	return order ? order : strcmp(a->host, b->host);
}

/* A rank that is added again replaces all that was known of its device, as of another run with the
 * same id; of a process without a rank only its own record. Is `x` one of the first `count`? */
static int has(const struct history_run *r, size_t count, const struct history_rank *x)
{
	return bsearch(x, r->members, count, sizeof(*x), x->rank < 0 ? by_rank : by_device) != NULL;
}

/* A run of the same id with another number of ranks is another run; of one that an older memtrace
 * added, the ranks are not known. */
static int is_other(const struct history_run *r, const struct history_run *known)
{
	return !known->member_count || r->world_size != known->world_size;
}

static void swap_TEXT(char **a, char **b)
{
	char *t = *a;

	*a = *b;
	*b = t;
}

static int is_named(const struct history_run *r)
{
	return strcmp(r->job, r->fingerprint ? r->fingerprint : "") != 0;
}

/* Values that are equal in the records of all ranks are taken from the first rank. */
static void take_first(struct history_run *r, struct history_run *known)
{
	int is_job_kept = is_named(r), is_job_known = is_named(known);

	if (by_rank(&known->members[0], &r->members[0]) < 0) {
		swap_TEXT(&r->fingerprint, &known->fingerprint);
		swap_TEXT(&r->model, &known->model);
		swap_TEXT(&r->gpu, &known->gpu);
		swap_TEXT(&r->memtrace_version, &known->memtrace_version);
		swap_TEXT(&r->config, &known->config);
		swap_TEXT(&r->versions, &known->versions);
		if (!is_job_kept)
			swap_TEXT(&r->job, &known->job);
	} else if (!is_job_kept && is_job_known) {
		swap_TEXT(&r->job, &known->job);
	}
}

/* Takes the parts of the worst rank that was known. */
static void swap_parts(struct history_run *r, struct history_run *known)
{
	struct history_part *parts = r->parts;
	size_t count = r->part_count, room = r->part_room;

	r->parts = known->parts;
	r->part_count = known->part_count;
	r->part_room = known->part_room;
	known->parts = parts;
	known->part_count = count;
	known->part_room = room;
}

void history_run_join(struct history_run *r, struct history_run *known)
{
	const size_t added = r->member_count;
	struct history_rank worst_known, worst_added;

	if (is_other(r, known))
		return;
	qsort(known->members, known->member_count, sizeof(*known->members), by_rank);
	history_run_sum(known);
	worst_known = known->members[known->worst];
	worst_added = r->members[r->worst];
	take_first(r, known);
	for (size_t i = 0; i < known->member_count; i++) {
		struct history_rank *x = &known->members[i];

		if (has(r, added, x))
			continue;
		r->members =
			grow(r->members, r->member_count, &r->member_room, sizeof(*r->members));
		r->members[r->member_count++] = *x;
		*x = (struct history_rank){ .host = NULL };
	}
	qsort(r->members, r->member_count, sizeof(*r->members), by_rank);
	history_run_sum(r);
	if (!by_rank(&r->members[r->worst], &worst_added))
		return;
	/* The parts of a rank are not kept unless it is the worst. */
	swap_parts(r, known);
	if (by_rank(&r->members[r->worst], &worst_known))
		history_parts_clear(r);
}
