/* The sizes that stand out at the moment: the logits' and the attention scores', by which they are known elsewhere. */
#include "metrics/metrics_pass.h"

int measure_is_logits(const struct watched *w, uint64_t marks, bytes size)
{
	if (!w->logits || marks & (MARKED(OPTIMIZER) | MARKED(LOAD)))
		return 0;
	if (marks & MARKED(LOSS))
		return size >= w->logits / 4;
	return same_size(size, w->logits) || (w->logits_half && same_size(size, w->logits / 2)) ||
	       (w->logits_twice && same_size(size, w->logits * 2));
}

int measure_is_score(const struct watched *w, uint64_t marks, int autograd, bytes size)
{
	if (!w->scores)
		return 0;
	if (marks & MARKED(ATTENTION))
		return !(marks & MARKED(LINEAR)) &&
		       (is_kin(size, w->scores) || same_size(size, w->scores / 4));
	return autograd && is_kin(size, w->scores);
}

/*
 * Logits in half or twice the precision are one or two blocks; where there are many of such a size,
 * it is that of a layer's activations.
 */
static void find_kin(struct watched *w, const struct snapshot *s)
{
	uint64_t half = 0, twice = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct group *g = &s->groups[i];

		if (g->smallest != g->largest)
			continue;
		half += same_size(g->largest, w->logits / 2) ? g->blocks : 0;
		twice += same_size(g->largest, w->logits * 2) ? g->blocks : 0;
	}
	w->logits_half = half <= 3;
	w->logits_twice = twice <= 3;
}

void measure_sizes(struct watched *w, struct measuring *p, const struct snapshot *s)
{
	for (size_t i = 0; i <= s->count; i++) {
		const struct failure *request = i == s->count ? w->failure : NULL;
		uint32_t place;
		bytes size;

		if (i == s->count && !request)
			break;
		place = request ? request->place : s->groups[i].place;
		/* Some optimizers make states wherever they first need them. In a step that failed,
		 * what stays is not known. */
		if (!w->failure && s->groups[i].category == CATEGORY_OPTIMIZER_STATES && place &&
		    place < p->tables->place_count)
			p->marks[place] |= MARKED(STATE);
		size = request ? request->requested : s->groups[i].largest;
		if (place >= p->tables->place_count || size < MEASURE_LEAST)
			continue;
		if (p->marks[place] & MARKED(LOSS) && size > w->logits)
			w->logits = size;
		if (!(p->marks[place] & MARKED(ATTENTION)))
			continue;
		if (p->marks[place] & MARKED(LINEAR))
			w->linear = size > w->linear ? size : w->linear;
		else
			w->scores = size > w->scores ? size : w->scores;
	}
	find_kin(w, s);
	w->m->logits_block = w->logits;
	w->m->attention_block = w->scores;
	w->m->attention_linear = w->linear;
}
