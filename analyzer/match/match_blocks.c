#include "match/match_blocks.h"
#include "util/order.h"

#include <stdlib.h>

#define MAX_EXCHANGES 1000

static int order(bytes size, int category, int term, bytes size2, int category2, int term2)
{
	if (size != size2)
		return ORDER(size, size2);
	if (category != category2)
		return ORDER(category, category2);
	return ORDER(term, term2);
}

static int predicted_order(const void *a, const void *b)
{
	const struct predicted *x = a, *y = b;

	return order(x->least, (int)x->category, x->term, y->least, (int)y->category, y->term);
}

static int observed_order(const void *a, const void *b)
{
	const struct peak_block *x = ((const struct observed *)a)->row,
				*y = ((const struct observed *)b)->row;
	int same = order(x->bytes, (int)x->category, 0, y->bytes, (int)y->category, 0);

	return same ? same : ORDER(x, y);
}

static void pair(struct predicted *p, struct observed *o, size_t partner)
{
	p->found = 1;
	o->term = p->term;
	o->partner = partner;
}

/* Pairs equal sizes. Both are sorted by size, then by category. */
static void pair_equal(struct predicted *p, size_t np, struct observed *o, size_t no, int category)
{
	size_t i = 0, k = 0;

	while (i < np && k < no) {
		int less = ORDER(p[i].least, o[k].row->bytes);

		if (p[i].found)
			less = -1;
		else if (o[k].term >= 0)
			less = 1;
		else if (!less && category)
			less = (p[i].category > o[k].row->category) -
			       (p[i].category < o[k].row->category);
		if (!less)
			pair(&p[i], &o[k], i);
		i += less <= 0;
		k += less >= 0;
	}
}

/* Each predicted block is an interval of possible sizes. The interval that ends first is paired
 * first, which pairs as many as possible. `category` -1: any. */
static void pair_tails(struct predicted *p, size_t np, struct observed *o, size_t no, int category)
{
	size_t i = 0, k = 0;

	while (i < np && k < no) {
		if (p[i].found || p[i].least <= MAX_UNSPLIT_TAIL ||
		    (category >= 0 && (int)p[i].category != category) ||
		    p[i].least + MAX_UNSPLIT_TAIL < o[k].row->bytes)
			i++;
		else if (o[k].term >= 0 || o[k].row->bytes < p[i].least ||
			 (category >= 0 && (int)o[k].row->category != category))
			k++;
		else {
			pair(&p[i], &o[k++], i);
			i++;
		}
	}
}

static int may_be(const struct predicted *p, const struct observed *o)
{
	bytes size = o->row->bytes;

	return size == p->least || (p->least > MAX_UNSPLIT_TAIL && size > p->least &&
				    size <= p->least + MAX_UNSPLIT_TAIL);
}

/* Gives a paired block to `left`, and `to`, which `left` cannot be, to that block's former partner.
 */
static int exchange(struct predicted *left, struct predicted *p, struct observed *to,
		    struct observed *o, size_t no)
{
	for (size_t k = 0; k < no; k++) {
		struct predicted *former = o[k].term < 0 ? NULL : &p[o[k].partner];

		if (!former || former->category != left->category || !may_be(left, &o[k]) ||
		    !may_be(former, to))
			continue;
		to->term = former->term;
		to->partner = o[k].partner;
		o[k].term = left->term;
		o[k].partner = (size_t)(left - p);
		left->found = 1;
		return 1;
	}
	return 0;
}

/* Equal sizes are paired first, which may take the only possible block of another prediction. */
static void exchange_all(struct predicted *p, size_t np, struct observed *o, size_t no)
{
	size_t tries = MAX_EXCHANGES;

	for (size_t i = 0; i < np; i++) {
		if (p[i].found || p[i].least <= MAX_UNSPLIT_TAIL)
			continue;
		for (size_t k = 0; k < no && !p[i].found && tries; k++)
			if (o[k].term < 0 && o[k].row->bytes > p[i].least) {
				tries--;
				exchange(&p[i], p, &o[k], o, no);
			}
	}
}

void match_blocks(struct predicted *p, size_t np, struct observed *o, size_t no)
{
	if (np)
		qsort(p, np, sizeof(*p), predicted_order);
	if (no)
		qsort(o, no, sizeof(*o), observed_order);
	pair_equal(p, np, o, no, 1);
	for (int c = 0; c < CATEGORIES; c++)
		pair_tails(p, np, o, no, c);
	exchange_all(p, np, o, no);
	pair_equal(p, np, o, no, 0);
	pair_tails(p, np, o, no, -1);
}
