#include "report/step_spreads.h"

#include "util/order.h"

#include <stdlib.h>

struct step_peak {
	uint32_t step;
	bytes peak;
};

struct step_spreads {
	const struct report *report;
	const struct rank_group *group;
	struct step_peak *peaks; /* of all ranks, by step, the least first; NULL: not asked for */
	size_t peak_count;
	struct spread_until *until;
	size_t until_count, until_room;
};

struct step_spreads *step_spreads_new(const struct report *r, const struct rank_group *g)
{
	struct step_spreads *s = xcalloc(1, sizeof(*s));

	*s = (struct step_spreads){ .report = r, .group = g };
	return s;
}

void step_spreads_free(struct step_spreads *s)
{
	free(s->peaks);
	free(s->until);
	free(s);
}

uint32_t rank_last_step(const struct rank *r)
{
	return r->step_count ? r->steps[r->step_count - 1].step : 0;
}

bytes rank_peak_until(const struct rank *r, uint32_t step)
{
	size_t known = r->steps_before_gap;
	bytes most = UNKNOWN_BYTES;

	if (r->steps_left_out && !r->step_count)
		return UNKNOWN_BYTES;
	if (rank_last_step(r) <= step)
		return r->peak_allocated;
	if (r->steps_left_out && (!known || r->steps[known - 1].step < step))
		return UNKNOWN_BYTES;
	for (size_t i = 0; i < r->step_count && r->steps[i].step <= step; i++)
		most = r->steps[i].peak > most ? r->steps[i].peak : most;
	return most;
}

static const struct rank *member(const struct step_spreads *s, size_t i)
{
	return &s->report->ranks[s->group->ranks[i]];
}

static struct spread_until until(const struct step_spreads *s, uint32_t step)
{
	struct spread_until u = { .step = step };
	bytes *values = xcalloc(s->group->count, sizeof(*values));

	for (size_t i = 0; i < s->group->count; i++) {
		bytes peak = rank_peak_until(member(s, i), step);

		if (peak != UNKNOWN_BYTES)
			values[u.known++] = peak;
	}
	if (u.known) {
		u.median = bytes_median(values, u.known);
		for (size_t i = 0; i < u.known; i++)
			values[i] = bytes_distance(values[i], u.median);
		u.deviation = bytes_median(values, u.known);
	}
	free(values);
	return u;
}

const struct spread_until *step_spreads_until(struct step_spreads *s, uint32_t step)
{
	for (size_t i = 0; i < s->until_count; i++)
		if (s->until[i].step == step)
			return &s->until[i];
	s->until = grow(s->until, s->until_count, &s->until_room, sizeof(*s->until));
	s->until[s->until_count] = until(s, step);
	return &s->until[s->until_count++];
}

static int by_step(const void *a, const void *b)
{
	const struct step_peak *x = a, *y = b;

	return x->step != y->step ? ORDER(x->step, y->step) : ORDER(x->peak, y->peak);
}

static void collect(struct step_spreads *s)
{
	size_t count = 0;

	for (size_t i = 0; i < s->group->count; i++)
		count += member(s, i)->step_count;
	s->peaks = xcalloc(count + 1, sizeof(*s->peaks));
	for (size_t i = 0; i < s->group->count; i++) {
		const struct rank *r = member(s, i);

		for (size_t k = 0; k < r->step_count; k++)
			s->peaks[s->peak_count++] =
				(struct step_peak){ r->steps[k].step, r->steps[k].peak };
	}
	qsort(s->peaks, s->peak_count, sizeof(*s->peaks), by_step);
}

/* The first peak of a step that is not below `step`. */
static size_t begin_of(const struct step_spreads *s, uint64_t step)
{
	size_t from = 0, to = s->peak_count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (s->peaks[middle].step < step)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

int step_spreads_in(struct step_spreads *s, uint32_t step, bytes *median)
{
	size_t begin, end;

	if (!s->peaks)
		collect(s);
	begin = begin_of(s, step);
	end = begin_of(s, (uint64_t)step + 1);
	if (begin == end)
		return 0;
	*median = s->peaks[begin + (end - begin - 1) / 2].peak;
	return 1;
}
