#include "ranks.h"

#include "config/config.h"

#include <stdlib.h>
#include <string.h>

#define FAR 5       /* times the median deviation: an outlier */
#define FEWEST 3    /* ranks of a group that can have one */
#define ALIKE 100   /* parts of a size within which two are the same */
#define SMALL (INT64_C(2) << 20) /* differences of one segment are none */

const char *measure_key(enum measure m)
{
	static const char *const keys[] = { "allocated", "reserved", "device" };

	return keys[m];
}

bytes measure_of(const struct rank *r, enum measure m)
{
	const bytes all[] = { r->peak_allocated, r->peak_reserved, r->peak_device };

	return all[m];
}

void ranks_list(struct buf *b, const int *numbers, size_t count, size_t most)
{
	for (size_t i = 0, runs = 0; i < count;) {
		size_t end = i + 1;

		while (end < count && numbers[end] == numbers[end - 1] + 1)
			end++;
		if (runs++ == most) {
			buf_addf(b, " and %zu more", count - i);
			return;
		}
		buf_addf(b, "%s%d", i ? ", " : "", numbers[i]);
		if (end - i > 1)
			buf_addf(b, "%s%d", end - i > 2 ? "-" : ", ", numbers[end - 1]);
		i = end;
	}
}

/* Several ranks of one run, each with a number in one world. */
static int is_one_job(const struct report *r)
{
	const struct rank *first = r->ranks;
	int several = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct rank *x = &r->ranks[i];

		if (x->rank == NO_RANK || x->world_size < 2 || x->rank >= x->world_size ||
		    x->world_size != first->world_size || strcmp(x->run_id, first->run_id) ||
		    x->restart_count != first->restart_count)
			return 0;
		several |= x->rank != first->rank;
	}
	return several || (r->count && first->world_size > 1);
}

/* Of a process with several devices the one that tensors fill most has the seat. */
static int has_seat(const struct report *r, size_t i)
{
	const struct rank *x = &r->ranks[i];

	for (size_t k = i; k-- > 0 && r->ranks[k].rank == x->rank;)
		if (r->ranks[k].peak_allocated >= x->peak_allocated)
			return 0;
	for (size_t k = i + 1; k < r->count && r->ranks[k].rank == x->rank; k++)
		if (r->ranks[k].peak_allocated > x->peak_allocated)
			return 0;
	return 1;
}

static int is_near(uint64_t a, uint64_t b, uint64_t slack)
{
	uint64_t larger = a > b ? a : b, smaller = a > b ? b : a;

	return larger - smaller <= larger / ALIKE + slack;
}

/* Did they do the same, and need the same for it? */
static int is_alike(const struct rank *a, const struct rank *b)
{
	return is_near((uint64_t)a->peak_allocated, (uint64_t)b->peak_allocated, SMALL) &&
	       is_near(a->tensor_allocs, b->tensor_allocs, 16);
}

static struct rank_group *add_group(struct ranks *ranks, int stage)
{
	ranks->groups = xrealloc(ranks->groups, (ranks->group_count + 1) * sizeof(*ranks->groups));
	ranks->groups[ranks->group_count] = (struct rank_group){ .stage = stage };
	return &ranks->groups[ranks->group_count++];
}

static void join(struct rank_group *g, size_t rank)
{
	g->ranks = xrealloc(g->ranks, (g->count + 1) * sizeof(*g->ranks));
	g->ranks[g->count++] = rank;
}

static size_t group_of_stage(struct ranks *ranks, int stage)
{
	for (size_t i = 0; i < ranks->group_count; i++)
		if (ranks->groups[i].stage == stage)
			return i;
	add_group(ranks, stage);
	return ranks->group_count - 1;
}

static size_t group_of_likes(struct ranks *ranks, const struct report *r, size_t rank)
{
	for (size_t i = 0; i < ranks->group_count; i++)
		if (is_alike(&r->ranks[ranks->groups[i].ranks[0]], &r->ranks[rank]))
			return i;
	add_group(ranks, NO_RANK);
	return ranks->group_count - 1;
}

static void make_groups(struct ranks *ranks, const struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		struct seat *s = &ranks->seats[i];

		for (int a = 0; a < AXES; a++)
			s->at[a] = NO_RANK;
		if (ranks->is_placed)
			layout_place(&ranks->layout, r->ranks[i].rank, s->at);
		s->group = NO_GROUP;
		if (!has_seat(r, i))
			continue;
		s->group = ranks->is_placed ? group_of_stage(ranks, s->at[AXIS_PP])
					    : group_of_likes(ranks, r, i);
		join(&ranks->groups[s->group], i);
	}
}

static int by_value(const void *a, const void *b)
{
	bytes x = *(const bytes *)a, y = *(const bytes *)b;

	return (x > y) - (x < y);
}

/* Of an even number the lower one, so that it is a value that somebody has. */
static bytes median(bytes *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[(count - 1) / 2];
}

static bytes distance(bytes a, bytes b)
{
	return a > b ? a - b : b - a;
}

static void measure_group(struct rank_group *g, const struct report *r)
{
	bytes *values = xcalloc(g->count, sizeof(*values));

	for (enum measure m = 0; m < MEASURES; m++) {
		for (size_t i = 0; i < g->count; i++)
			values[i] = measure_of(&r->ranks[g->ranks[i]], m);
		g->median[m] = median(values, g->count);
		if (m == MEASURE_ALLOCATED) {
			g->least = values[0];
			g->most = values[g->count - 1];
		}
		for (size_t i = 0; i < g->count; i++)
			values[i] = distance(values[i], g->median[m]);
		g->deviation[m] = median(values, g->count);
	}
	g->worst = g->ranks[0];
	for (size_t i = 0; i < g->count; i++)
		if (r->ranks[g->ranks[i]].peak_allocated > r->ranks[g->worst].peak_allocated)
			g->worst = g->ranks[i];
	free(values);
}

/* Ranks that differ by less than a part in ALIKE, or a segment, are the same whatever the spread. */
static int is_far(bytes value, bytes middle, bytes deviation)
{
	bytes off = distance(value, middle);

	return off / FAR > deviation && off > middle / ALIKE && off > SMALL;
}

static void find_outliers(struct ranks *ranks, const struct report *r, const struct rank_group *g)
{
	if (g->count < FEWEST)
		return;
	for (size_t i = 0; i < g->count; i++) {
		struct outlier most = { .rank = g->ranks[i] };

		for (enum measure m = 0; m < MEASURES; m++) {
			bytes value = measure_of(&r->ranks[g->ranks[i]], m);

			if (is_far(value, g->median[m], g->deviation[m]) &&
			    distance(value, g->median[m]) > distance(most.value, most.median))
				most = (struct outlier){ g->ranks[i], m, value, g->median[m],
							 g->deviation[m] };
		}
		if (!most.value && !most.median)
			continue;
		ranks->outliers = xrealloc(ranks->outliers, (ranks->outlier_count + 1) *
								    sizeof(*ranks->outliers));
		ranks->outliers[ranks->outlier_count++] = most;
	}
}

/* By likeness a rank that is like no other, where most are like each other, is the outlier. */
static void find_loners(struct ranks *ranks, const struct report *r)
{
	const struct rank_group *main_group = &ranks->groups[0];

	if (ranks->is_placed || main_group->count < FEWEST)
		return;
	for (size_t i = 1; i < ranks->group_count; i++) {
		const struct rank_group *g = &ranks->groups[i];
		const struct rank *x = &r->ranks[g->ranks[0]];

		if (g->count > 1 || is_near((uint64_t)x->peak_allocated,
					    (uint64_t)main_group->median[MEASURE_ALLOCATED], SMALL))
			continue;
		ranks->outliers = xrealloc(ranks->outliers, (ranks->outlier_count + 1) *
								    sizeof(*ranks->outliers));
		ranks->outliers[ranks->outlier_count++] =
			(struct outlier){ g->ranks[0], MEASURE_ALLOCATED, x->peak_allocated,
					  main_group->median[MEASURE_ALLOCATED],
					  main_group->deviation[MEASURE_ALLOCATED] };
	}
}

static int by_difference(const void *a, const void *b)
{
	const struct outlier *x = a, *y = b;
	bytes p = distance(x->value, x->median), q = distance(y->value, y->median);

	if (p != q)
		return p < q ? 1 : -1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_stage(const void *a, const void *b)
{
	const struct rank_group *x = a, *y = b;

	if (x->stage != y->stage)
		return x->stage < y->stage ? -1 : 1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->ranks[0] > y->ranks[0]) - (x->ranks[0] < y->ranks[0]);
}

static void find_missing(struct ranks *ranks, const struct report *r)
{
	size_t at = 0, room = 0;

	for (int n = 0; n < ranks->world; n++) {
		while (at < r->count && r->ranks[at].rank < n)
			at++;
		if (at < r->count && r->ranks[at].rank == n)
			continue;
		ranks->missing =
			grow(ranks->missing, ranks->missing_count, &room, sizeof(*ranks->missing));
		ranks->missing[ranks->missing_count++] = n;
	}
}

struct ranks *ranks_of(const struct report *r, const struct config *c)
{
	struct ranks *ranks;

	if (!is_one_job(r))
		return NULL;
	ranks = xcalloc(1, sizeof(*ranks));
	ranks->world = r->ranks[0].world_size;
	ranks->is_placed =
		c && layout_read(&ranks->layout, c, r->ranks[0].command, ranks->world);
	ranks->seats = xcalloc(r->count, sizeof(*ranks->seats));
	make_groups(ranks, r);
	qsort(ranks->groups, ranks->group_count, sizeof(*ranks->groups), by_stage);
	for (size_t i = 0; i < ranks->group_count; i++) {
		struct rank_group *g = &ranks->groups[i];

		for (size_t k = 0; k < g->count; k++)
			ranks->seats[g->ranks[k]].group = i;
		measure_group(g, r);
		find_outliers(ranks, r, g);
	}
	find_loners(ranks, r);
	if (ranks->outlier_count)
		qsort(ranks->outliers, ranks->outlier_count, sizeof(*ranks->outliers),
		      by_difference);
	find_missing(ranks, r);
	return ranks;
}

void ranks_free(struct ranks *ranks)
{
	if (!ranks)
		return;
	for (size_t i = 0; i < ranks->group_count; i++)
		free(ranks->groups[i].ranks);
	free(ranks->groups);
	free(ranks->seats);
	free(ranks->outliers);
	free(ranks->missing);
	free(ranks);
}
