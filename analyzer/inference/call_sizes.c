#include "inference/call_sizes.h"

#include "util/order.h"

#include <stdlib.h>

/* Blocks of one line of the model, whoever called it. */
struct line_blocks {
	uint64_t model;
	bytes clock, last, largest; /* when the latest was made; sizes */
};

static int by_model(const void *a, const void *b)
{
	const struct line_blocks *x = a, *y = b;

	return x->model != y->model ? ORDER(x->model, y->model) : ORDER(x->clock, y->clock);
}

int is_small_call(const struct history *h, const struct tables *t)
{
	struct line_blocks *list = xcalloc(h->stack_count, sizeof(*list));
	unsigned lines = 0, small = 0;
	size_t count = 0;

	for (size_t i = 1; i < h->stack_count; i++)
		if (h->stacks[i].allocs && stack_is_of_model(t, i) &&
		    !hint_is_cache(stack_hint(tables_stack_info(t, (uint32_t)i)->flags)))
			list[count++] =
				(struct line_blocks){ tables_stack_info(t, (uint32_t)i)->model_hash,
						      h->stacks[i].last_clock, h->stacks[i].last,
						      h->stacks[i].largest };
	if (count)
		qsort(list, count, sizeof(*list), by_model);
	for (size_t i = 0, k; i < count; i = k) {
		bytes largest = 0;

		for (k = i; k < count && list[k].model == list[i].model; k++)
			largest = larger_of(largest, list[k].largest);
		lines++;
		small += list[k - 1].last <= largest / 2;
	}
	free(list);
	return 2 * small > lines;
}
