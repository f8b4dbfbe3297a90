#include "metrics/metrics_doubled.h"

#include "metrics/metrics_sizes.h"

/* The shortest chain of tensors that follow from one another: fewer of them may be the parts of
 * one that is put together. */
#define MIN_CHAIN 3

/* Stacks have numbers in the order in which they first appear. */
struct doubled {
	bytes size;
	uint32_t first; /* the first stack of the job's own code that makes this size */
	uint64_t blocks, halves;
	uint32_t half; /* a stack of halves */
};

static int is_of_step(const struct block_group *g)
{
	return g->category == CATEGORY_ACTIVATIONS || g->category == CATEGORY_TEMPORARIES ||
	       g->category == CATEGORY_INPUTS || g->category == CATEGORY_OTHER;
}

/* The largest block that the job's own code allocated, or requests. */
static bytes largest_own(const struct tables *t, const struct failure *f,
			 const struct snapshot *live)
{
	bytes largest = f && tables_stack_is_own_code(t, f->stack) ? f->requested : 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (is_of_step(g) && g->smallest == g->largest &&
		    tables_stack_is_own_code(t, g->stack))
			largest = larger_of(largest, g->largest);
	}
	return largest;
}

/* Do the blocks of the group have one size, and is it this one? */
static int is_one_size(const struct block_group *g, bytes size)
{
	return is_of_step(g) && g->smallest == g->largest && same_size(g->largest, size);
}

/* Counts blocks of the size, if the job's own code or its backward pass allocated them. */
static void count(struct doubled *n, const struct tables *t, uint32_t stack, uint64_t blocks)
{
	int is_own = tables_stack_is_own_code(t, stack);

	if (!is_own && tables_stack_has_frames(t, stack))
		return;
	n->blocks += blocks;
	if (is_own && (!n->first || stack < n->first))
		n->first = stack;
}

/* The job doubles a tensor if its own code allocated tensors of half the size before, and fewer of
 * them: a tensor that is put together of two parts leaves as many parts. */
void metrics_find_doubled(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	const struct failure *f = d->failure && !d->failure->from_runtime ? d->failure : NULL;
	struct doubled n = { .size = largest_own(p->tables, f, live) };

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		/* Blocks of a backward pass that have no line are one group, of all sizes. */
		if (is_of_step(g) && same_size(g->largest, n.size) &&
		    !tables_stack_has_frames(p->tables, g->stack))
			count(&n, p->tables, g->stack, g->alike);
		else if (is_one_size(g, n.size))
			count(&n, p->tables, g->stack, g->blocks);
	}
	if (f && same_size(f->requested, n.size))
		count(&n, p->tables, f->stack, 1);
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (is_one_size(g, n.size / 2) && tables_stack_is_own_code(p->tables, g->stack) &&
		    g->stack < n.first) {
			n.halves += g->blocks;
			n.half = g->stack;
		}
	}
	if (!n.halves || n.blocks < 2 || n.blocks <= n.halves)
		return;
	d->m->doubled_block = n.size;
	d->m->doubled_blocks = (int64_t)n.blocks;
	d->m->doubled = bytes_times(n.size, d->m->doubled_blocks);
	d->m->doubled_stack = n.first;
	d->m->doubled_once =
		n.halves == 1 && n.blocks >= MIN_CHAIN && d->stacks[n.first].half_stack == n.half;
}
