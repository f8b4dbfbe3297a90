#include "match_blocks.h"

#include <stdlib.h>

static int by_size(bytes a, bytes b)
{
	return (a > b) - (a < b);
}

static int order(bytes size, int category, int term, bytes size2, int category2, int term2)
{
	if (size != size2)
		return by_size(size, size2);
	if (category != category2)
		return category < category2 ? -1 : 1;
	return (term > term2) - (term < term2);
}

static int predicted_order(const void *a, const void *b)
{
	const struct predicted *x = a, *y = b;

	return order(x->least, (int)x->category, x->term, y->least, (int)y->category, y->term);
}

static int observed_order(const void *a, const void *b)
{
	const struct held_row *x = ((const struct observed *)a)->row,
			      *y = ((const struct observed *)b)->row;
	int same = order(x->bytes, (int)x->category, 0, y->bytes, (int)y->category, 0);

	return same ? same : (x > y) - (x < y);
}

static void pair(struct predicted *p, struct observed *o)
{
	p->found = 1;
	o->term = p->term;
}

/* Both are sorted by size, then by category. */
static void pair_equal(struct predicted *p, size_t np, struct observed *o, size_t no, int category)
{
	size_t i = 0, k = 0;

	while (i < np && k < no) {
		int less = by_size(p[i].least, o[k].row->bytes);

		if (p[i].found)
			less = -1;
		else if (o[k].term >= 0)
			less = 1;
		else if (!less && category)
			less = (p[i].category > o[k].row->category) -
			       (p[i].category < o[k].row->category);
		if (!less)
			pair(&p[i], &o[k]);
		i += less <= 0;
		k += less >= 0;
	}
}

/* Every predicted block spans what it may have become, and the one that ends first goes first: none
 * could be paired better. -1: any category. */
static void pair_tails(struct predicted *p, size_t np, struct observed *o, size_t no, int category)
{
	size_t i = 0, k = 0;

	while (i < np && k < no) {
		if (p[i].found || p[i].least <= MOST_TAIL ||
		    (category >= 0 && (int)p[i].category != category) ||
		    p[i].least + MOST_TAIL < o[k].row->bytes)
			i++;
		else if (o[k].term >= 0 || o[k].row->bytes < p[i].least ||
			 (category >= 0 && (int)o[k].row->category != category))
			k++;
		else
			pair(&p[i++], &o[k++]);
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
	pair_equal(p, np, o, no, 0);
	pair_tails(p, np, o, no, -1);
}
