#include "attribution/rounds.h"
#include "util/order.h"

#include <stdlib.h>

#define SHOWS_ALWAYS 4 /* turns with an optimizer: then no step is without */

void turns_add(struct turns *t, const struct turn *turn)
{
	t->list = grow(t->list, t->count, &t->room, sizeof(*t->list));
	t->list[t->count++] = *turn;
}

void turns_link(struct turns *t, uint32_t caller)
{
	struct turn_link *last = t->link_count ? &t->links[t->link_count - 1] : NULL;

	if (last && last->turn == t->count - 1 && last->caller == caller)
		return;
	t->links = grow(t->links, t->link_count, &t->link_room, sizeof(*t->links));
	t->links[t->link_count++] = (struct turn_link){ t->count - 1, caller };
}

void turns_release(struct turns *t)
{
	free(t->list);
	free(t->links);
	*t = (struct turns){ 0 };
}

/* Sets of lines of code that belong to one optimizer: each line points to another of its set, the
 * last one to itself. */
struct sets {
	struct line {
		uint32_t caller;
		uint32_t to;
	} * list;
	size_t count;
};

static int by_line(const void *a, const void *b)
{
	uint32_t x = ((const struct line *)a)->caller, y = ((const struct line *)b)->caller;

	return ORDER(x, y);
}

static struct sets sets_of(const struct turns *t)
{
	struct sets s = { .list = xcalloc(t->count + t->link_count, sizeof(*s.list)) };
	size_t all = 0;

	for (size_t i = 0; i < t->count; i++)
		s.list[all++].caller = t->list[i].forward;
	for (size_t i = 0; i < t->link_count; i++)
		s.list[all++].caller = t->links[i].caller;
	if (all)
		qsort(s.list, all, sizeof(*s.list), by_line);
	for (size_t i = 0; i < all; i++)
		if (!s.count || s.list[s.count - 1].caller != s.list[i].caller)
			s.list[s.count++] = s.list[i];
	for (size_t i = 0; i < s.count; i++)
		s.list[i].to = (uint32_t)i;
	return s;
}

static uint32_t set_of(struct sets *s, uint32_t caller)
{
	struct line key = { .caller = caller };
	uint32_t at = (uint32_t)((struct line *)bsearch(&key, s->list, s->count, sizeof(*s->list),
							by_line) -
				 s->list);

	while (s->list[at].to != at) {
		s->list[at].to = s->list[s->list[at].to].to;
		at = s->list[at].to;
	}
	return at;
}

/*
 * Turns after which the same line steps the optimizer are of one class, and so are turns whose
 * forward pass begins on the same line. If the optimizer calls the model, its own line shows
 * nothing: it calls the model from one line first, from others later.
 */
static void find_classes(struct turns *t)
{
	struct sets s = sets_of(t);

	for (size_t i = 0; i < t->link_count; i++) {
		const struct turn *turn = &t->list[t->links[i].turn];

		if (!turn->in_optimizer)
			s.list[set_of(&s, turn->forward)].to = set_of(&s, t->links[i].caller);
	}
	for (size_t i = 0; i < t->count; i++)
		t->list[i].class_index = set_of(&s, t->list[i].forward);
	free(s.list);
}

/* Turns of one class in a row. */
struct run {
	size_t first, end; /* of its turns, and the first one behind */
	size_t shown;      /* before its end: turns after which the optimizer shows */
	size_t again;      /* the next run of the same class; the number of runs: there is none */
};

struct runs {
	struct run *list;
	size_t count;
	uint32_t *of; /* the run of each turn */
};

static struct runs runs_of(const struct turns *t)
{
	struct runs r = { .list = xcalloc(t->count, sizeof(*r.list)),
			  .of = xcalloc(t->count, sizeof(*r.of)) };
	size_t *next = xcalloc(t->count + t->link_count, sizeof(*next)), shown = 0;

	for (size_t i = 0; i < t->count; i++) {
		if (!i || t->list[i].class_index != t->list[i - 1].class_index)
			r.list[r.count++].first = i;
		shown += (size_t)t->list[i].shows;
		r.list[r.count - 1].end = i + 1;
		r.list[r.count - 1].shown = shown;
		r.of[i] = (uint32_t)r.count - 1;
	}
	for (size_t i = r.count; i-- > 0;) {
		size_t *known = &next[t->list[r.list[i].first].class_index];

		r.list[i].again = *known ? *known : r.count;
		*known = i;
	}
	free(next);
	return r;
}

/* Does a round of several optimizers begin with this run? One of them has one turn only. */
static int begins_round(const struct runs *r, size_t i)
{
	const struct run *run = &r->list[i];
	size_t own, others;

	if (run->again == r->count)
		return 0;
	own = run->shown - (i ? r->list[i - 1].shown : 0);
	others = r->list[run->again - 1].shown - run->shown;
	return own <= 1 || others <= 1;
}

/* Sets `ends` of turns after which the optimizer shows: of a round of several, of the last one. */
static void end_rounds(struct turns *t)
{
	struct runs r = runs_of(t);
	unsigned char *begin = xcalloc(t->count + t->link_count, 1); /* of each class */
	size_t first = 0;                                            /* of the round */
	int shows = 0;                                               /* within it */

	for (size_t i = 0; i < t->count; i++) {
		const struct turn *next = i + 1 < t->count ? &t->list[i + 1] : NULL;
		struct turn *turn = &t->list[i];
		uint32_t own = t->list[first].class_index;

		if (i == first && r.list[r.of[i]].first == i && begins_round(&r, r.of[i]))
			begin[own] = 1;
		shows |= turn->shows;
		turn->ends = turn->shows;
		if (begin[own])
			turn->ends = shows && next && next->class_index == own &&
				     turn->class_index != own;
		if (turn->ends) {
			first = i + 1;
			shows = 0;
		}
	}
	free(begin);
	free(r.list);
	free(r.of);
}

/* The last turn after which the optimizer shows, if it does so in nearly each step up to that, and
 * more turns than a step has come behind it: an adaptation, an attack, a trial, which are no steps.
 * Else the number of turns. */
static size_t last_shown(const struct turns *t, size_t each)
{
	size_t shown = 0, last = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->list[i].shows) {
			shown++;
			last = i;
		}
	if (shown < SHOWS_ALWAYS || shown < last / each / 4 * 3 || t->count - 1 - last <= each)
		return t->count;
	return last;
}

/*
 * Ends the steps whose optimizer does not show. A run of turns in the middle, between two that end,
 * consists of such steps if its length is a multiple of the first step's, and long.
 */
static void end_by_count(struct turns *t)
{
	size_t each = 1, last; /* each: the turns of the first step */

	while (each <= t->count && !t->list[each - 1].ends)
		each++;
	last = last_shown(t, each);
	if (last < t->count)
		t->list[last].ends = 1;
	for (size_t i = each, upto; i < t->count; i = upto + 1) {
		size_t length;

		for (upto = i; upto < t->count && !t->list[upto].ends; upto++)
			;
		length = upto - i + (upto < t->count);
		if (upto < t->count ? length < 3 * each || length % each : last < t->count)
			continue;
		for (size_t k = i + each - 1; k < upto; k += each)
			t->list[k].ends = 1;
	}
}

void rounds_find(struct turns *t)
{
	int shows = 0;

	if (!t->count)
		return;
	for (size_t i = 0; i < t->count; i++)
		shows |= t->list[i].shows;
	/* The optimizer never shows: it may step after each turn but those of an inner loop. */
	for (size_t i = 0; i < t->count && !shows; i++)
		t->list[i].shows = t->list[i].has_backward && !t->list[i].is_inner;
	find_classes(t);
	end_rounds(t);
	end_by_count(t);
}
