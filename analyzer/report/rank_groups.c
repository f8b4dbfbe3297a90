#include "report/rank_groups.h"

#include "config/config.h"
#include "report/step_spreads.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define FEWEST 3 /* smaller groups have no outliers */
/* A header with more ranks is damaged: the ranks beyond are not missing. */
#define LARGEST_WORLD (1 << 17)

const char *level_key(enum level m)
{
	static const char *const keys[] = { "allocated", "reserved", "device" };

	return keys[m];
}

bytes rank_level(const struct rank *r, enum level m)
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

/* Are the entries ranks of one run, with one world size? */
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

/* The device with the largest peak of tensors stands for a rank that has several. */
static int is_primary_device(const struct report *r, size_t i)
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

	return larger - smaller <= larger / BYTES_ALIKE + slack;
}

/* Did two ranks allocate as often, and need the same? */
static int is_alike(const struct rank *a, const struct rank *b)
{
	return is_near((uint64_t)a->peak_allocated, (uint64_t)b->peak_allocated, BYTES_SMALL) &&
	       is_near(a->tensor_allocs, b->tensor_allocs, 16);
}

static struct rank_group *add_group(struct ranks *ranks, int stage)
{
	ranks->groups = xrealloc(ranks->groups, ranks->group_count + 1, sizeof(*ranks->groups));
	ranks->groups[ranks->group_count] = (struct rank_group){ .stage = stage };
	return &ranks->groups[ranks->group_count++];
}

static void join(struct rank_group *g, size_t rank)
{
	g->ranks = xrealloc(g->ranks, g->count + 1, sizeof(*g->ranks));
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
		struct rank_position *p = &ranks->positions[i];

		for (int a = 0; a < AXES; a++)
			p->coordinates.at[a] = NO_RANK;
		if (ranks->is_placed)
			p->coordinates = rank_coordinates(&ranks->layout, r->ranks[i].rank);
		p->group = NO_GROUP;
		if (!is_primary_device(r, i))
			continue;
		p->group = ranks->is_placed ? group_of_stage(ranks, p->coordinates.at[AXIS_PP])
					    : group_of_likes(ranks, r, i);
		join(&ranks->groups[p->group], i);
	}
}

static void summarize_group(struct rank_group *g, const struct report *r)
{
	bytes *values = xcalloc(g->count, sizeof(*values));

	for (enum level m = 0; m < LEVELS; m++) {
		size_t known = 0;

		for (size_t i = 0; i < g->count; i++) {
			values[known] = rank_level(&r->ranks[g->ranks[i]], m);
			known += values[known] != UNKNOWN_BYTES;
		}
		g->median[m] = known ? bytes_median(values, known) : UNKNOWN_BYTES;
		if (m == LEVEL_ALLOCATED) {
			g->least = values[0];
			g->most = values[known - 1];
		}
		for (size_t i = 0; i < known; i++)
			values[i] = bytes_distance(values[i], g->median[m]);
		g->deviation[m] = known ? bytes_median(values, known) : UNKNOWN_BYTES;
	}
	g->worst = g->ranks[0];
	for (size_t i = 0; i < g->count; i++) {
		if (r->ranks[g->ranks[i]].peak_allocated > r->ranks[g->worst].peak_allocated)
			g->worst = g->ranks[i];
		values[i] = rank_last_step(&r->ranks[g->ranks[i]]);
	}
	g->last_step = (uint32_t)bytes_median(values, g->count);
	free(values);
}

/* Compares a rank with its group, up to the same step. */
static struct outlier compare(const struct report *r, const struct rank_group *g,
			      struct step_spreads *spreads, size_t rank, enum level m)
{
	const struct rank *x = &r->ranks[rank];
	struct outlier o = { .rank = rank,
			     .level = m,
			     .value = rank_level(x, m),
			     .median = g->median[m],
			     .deviation = g->deviation[m] };
	const struct spread_until *until;

	if (o.value == UNKNOWN_BYTES)
		o.median = o.value;
	if (o.value == UNKNOWN_BYTES || rank_last_step(x) >= g->last_step)
		return o;
	/* The rank stopped earlier; reserved and device peaks are not known by step. */
	o.median = o.value;
	if (m != LEVEL_ALLOCATED || rank_peak_until(x, rank_last_step(x)) == UNKNOWN_BYTES)
		return o;
	until = step_spreads_until(spreads, rank_last_step(x));
	if (until->known >= FEWEST) {
		o.median = until->median;
		o.deviation = until->deviation;
	}
	return o;
}

/* The first step in which the outlier differed. */
static uint32_t off_since(const struct rank *x, struct step_spreads *spreads,
			  const struct outlier *o)
{
	bytes median;

	for (size_t s = 0; s < x->step_count; s++)
		if (step_spreads_in(spreads, x->steps[s].step, &median) &&
		    bytes_is_far(x->steps[s].peak, median, o->deviation))
			return x->steps[s].step;
	return 0;
}

static void add_outlier(struct ranks *ranks, const struct report *r, struct step_spreads *spreads,
			struct outlier o)
{
	if (o.level == LEVEL_ALLOCATED)
		o.step = off_since(&r->ranks[o.rank], spreads, &o);
	ranks->outliers =
		xrealloc(ranks->outliers, ranks->outlier_count + 1, sizeof(*ranks->outliers));
	ranks->outliers[ranks->outlier_count++] = o;
}

static void find_outliers(struct ranks *ranks, const struct report *r, const struct rank_group *g)
{
	struct step_spreads *spreads;

	if (g->count < FEWEST)
		return;
	spreads = step_spreads_new(r, g);
	for (size_t i = 0; i < g->count; i++) {
		struct outlier most = { 0 };

		for (enum level m = 0; m < LEVELS; m++) {
			struct outlier o = compare(r, g, spreads, g->ranks[i], m);

			if (bytes_is_far(o.value, o.median, o.deviation) &&
			    bytes_distance(o.value, o.median) >
				    bytes_distance(most.value, most.median))
				most = o;
		}
		if (most.value != most.median)
			add_outlier(ranks, r, spreads, most);
	}
	step_spreads_free(spreads);
}

/* Without a layout, a rank that is like no other is an outlier of the largest group. */
static void find_singletons(struct ranks *ranks, const struct report *r)
{
	const struct rank_group *most = &ranks->groups[0];
	struct step_spreads *spreads;

	if (ranks->is_placed || most->count < FEWEST)
		return;
	spreads = step_spreads_new(r, most);
	for (size_t i = 1; i < ranks->group_count; i++) {
		const struct rank_group *g = &ranks->groups[i];
		struct outlier o = compare(r, most, spreads, g->ranks[0], LEVEL_ALLOCATED);

		if (g->count == 1 && bytes_is_far(o.value, o.median, o.deviation))
			add_outlier(ranks, r, spreads, o);
	}
	step_spreads_free(spreads);
}

static int by_difference(const void *a, const void *b)
{
	const struct outlier *x = a, *y = b;
	bytes p = bytes_distance(x->value, x->median), q = bytes_distance(y->value, y->median);

	if (p != q)
		return ORDER(q, p);
	return ORDER(x->rank, y->rank);
}

static int by_stage(const void *a, const void *b)
{
	const struct rank_group *x = a, *y = b;

	if (x->stage != y->stage)
		return ORDER(x->stage, y->stage);
	if (x->count != y->count)
		return ORDER(y->count, x->count);
	return ORDER(x->ranks[0], y->ranks[0]);
}

static void find_missing(struct ranks *ranks, const struct report *r)
{
	int end = ranks->world < LARGEST_WORLD ? ranks->world : LARGEST_WORLD;
	size_t at = 0, room = 0;

	for (int n = 0; n < end; n++) {
		while (at < r->count && r->ranks[at].rank < n)
			at++;
		if (at < r->count && r->ranks[at].rank == n)
			continue;
		ranks->missing =
			grow(ranks->missing, ranks->missing_count, &room, sizeof(*ranks->missing));
		ranks->missing[ranks->missing_count++] = n;
	}
}

/* Leaves out axes of size 1. */
static char *coordinates_text(const struct rank_layout *l, const struct rank_coordinates *c)
{
	struct buf b = { 0 };

	for (int a = AXES - 1; a >= 0; a--)
		if (l->size[a] > 1)
			buf_addf(&b, "%s%s %d", b.length ? ", " : "", axis_key((enum axis)a),
				 c->at[a]);
	return b.length ? buf_take(&b) : NULL;
}

void ranks_relate(struct report *r, const struct config *c)
{
	struct ranks *ranks;

	if (!is_one_job(r))
		return;
	r->as_job = ranks = xcalloc(1, sizeof(*ranks));
	ranks->world = r->ranks[0].world_size;
	ranks->is_placed = c && rank_layout_read(&ranks->layout, c, ranks->world);
	ranks->positions = xcalloc(r->count, sizeof(*ranks->positions));
	make_groups(ranks, r);
	for (size_t i = 0; i < r->count && ranks->is_placed; i++)
		r->ranks[i].coordinates =
			coordinates_text(&ranks->layout, &ranks->positions[i].coordinates);
	qsort(ranks->groups, ranks->group_count, sizeof(*ranks->groups), by_stage);
	for (size_t i = 0; i < ranks->group_count; i++) {
		struct rank_group *g = &ranks->groups[i];

		for (size_t k = 0; k < g->count; k++)
			ranks->positions[g->ranks[k]].group = i;
		summarize_group(g, r);
		find_outliers(ranks, r, g);
	}
	find_singletons(ranks, r);
	if (ranks->outlier_count)
		qsort(ranks->outliers, ranks->outlier_count, sizeof(*ranks->outliers),
		      by_difference);
	find_missing(ranks, r);
}

void ranks_free(struct ranks *ranks)
{
	if (!ranks)
		return;
	for (size_t i = 0; i < ranks->group_count; i++)
		free(ranks->groups[i].ranks);
	free(ranks->groups);
	free(ranks->positions);
	free(ranks->outliers);
	free(ranks->missing);
	free(ranks);
}
