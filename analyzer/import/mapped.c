#include "import/mapped.h"

#include <search.h>
#include <stdlib.h>

#include "util/util.h"

/* Ranges that overlap are equal. */
static int by_place(const void *a, const void *b)
{
	const struct mapped *x = a, *y = b;

	if (x->end <= y->begin)
		return -1;
	return x->begin >= y->end;
}

void mapped_add(void **to, struct mapped range)
{
	struct mapped *kept = xcalloc(1, sizeof(*kept));

	*kept = range;
	if (!tsearch(kept, to, by_place))
		BUG("out of memory");
}

int mapped_take(void **from, uint64_t begin, uint64_t end, struct mapped *taken)
{
	const struct mapped wanted = { .begin = begin, .end = end };
	struct mapped **found = begin < end ? tfind(&wanted, from, by_place) : NULL, *range;

	if (!found)
		return 0;
	range = *found;
	*taken = *range;
	tdelete(range, from, by_place);
	free(range);
	return 1;
}

int mapped_cut(void **from, uint64_t begin, uint64_t end, struct cut *cut)
{
	struct mapped was;

	if (!mapped_take(from, begin, end, &was))
		return 0;
	*cut = (struct cut){
		.was = was,
		.rest = { { was.begin, was.begin < begin ? begin : was.begin, was.stack },
			  { was.end > end ? end : was.end, was.end, was.stack } },
	};
	for (int i = 0; i < 2; i++)
		if (mapped_size(cut->rest[i]))
			mapped_add(from, cut->rest[i]);
	return 1;
}

void mapped_release(void **ranges)
{
	struct mapped taken;

	while (mapped_take(ranges, 0, UINT64_MAX, &taken))
		;
}
