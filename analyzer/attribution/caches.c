#include "attribution/caches.h"

#include "util/size_counts.h"

#define LONE_LAYERS 4 /* so many layers have keys and values, */
#define LONE_OTHERS 2 /* and no other line has more blocks */

static int is_of_cache(const struct block_context *c, const struct lifetime *l)
{
	return block_context_hint(c, tables_stack_info(c->in.tables, l->alloc.stack)) ==
	       HINT_KV_CACHE;
}

/* A copy of a cache is no parameter, gradient or state, and has the size of no parameter, as a copy
 * of a model's state has. */
static int is_copy(const struct block_context *c, const struct lifetime *l,
		   const struct size_counts *parameters)
{
	const struct stack_info *p = tables_stack_info(c->in.tables, l->alloc.stack);

	return p->tags & TAGGED(COPY) && block_context_hint(c, p) == HINT_NOTHING &&
	       (l->category == CATEGORY_INPUTS || l->category == CATEGORY_OTHER ||
		l->category == CATEGORY_TEMPORARIES || l->category == CATEGORY_ACTIVATIONS) &&
	       !size_counts_count_near(parameters, l->alloc.bytes);
}

/* `sizes`: of the cache's blocks, but for those that are activations of a job that trains. */
static void find_sizes(const struct block_context *c, const struct lifetimes *l,
		       struct size_counts *sizes, struct size_counts *parameters)
{
	int trains = c->span_count && c->after[0] < c->span_count;

	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];

		if (is_of_cache(c, x) && !(trains && x->category == CATEGORY_ACTIVATIONS))
			size_counts_add(sizes, x->alloc.bytes);
		if (x->category == CATEGORY_PARAMETERS)
			size_counts_add(parameters, x->alloc.bytes);
	}
	size_counts_sort(sizes);
	size_counts_sort(parameters);
}

void find_copied_caches(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts sizes = { 0 }, parameters = { 0 };
	int copied = 0;

	find_sizes(c, l, &sizes, &parameters);
	for (size_t i = 0; i < l->count && sizes.count; i++)
		if (is_copy(c, &l->list[i], &parameters) &&
		    size_counts_count_near(&sizes, l->list[i].alloc.bytes)) {
			l->list[i].category = CATEGORY_KV_CACHE;
			copied = 1;
		}
	for (size_t i = 0; i < l->count && copied; i++)
		if (l->list[i].category == CATEGORY_ACTIVATIONS && is_of_cache(c, &l->list[i]) &&
		    size_counts_count_near(&sizes, l->list[i].alloc.bytes))
			l->list[i].category = CATEGORY_KV_CACHE;
	size_counts_release(&sizes);
	size_counts_release(&parameters);
}

/* Is the block what a forward pass made? */
static int is_of_pass(const struct lifetime *l)
{
	return l->category == CATEGORY_ACTIVATIONS || l->category == CATEGORY_TEMPORARIES;
}

static uint32_t blocks_of(const struct block_context *c, const struct lifetime *l)
{
	return block_info_of(c, l).siblings.blocks;
}

void find_lone_caches(const struct block_context *c, struct lifetimes *l)
{
	bytes size = 0;

	if (c->span_count && c->after[0] < c->span_count)
		return;
	for (size_t i = 0; i < l->count; i++)
		if (is_of_pass(&l->list[i]) && is_of_cache(c, &l->list[i]) &&
		    blocks_of(c, &l->list[i]) >= LONE_LAYERS)
			size = larger_of(size, l->list[i].alloc.bytes);
	for (size_t i = 0; i < l->count && size; i++)
		if (is_of_pass(&l->list[i]) && !is_of_cache(c, &l->list[i]) &&
		    l->list[i].alloc.bytes >= size / 4 && blocks_of(c, &l->list[i]) > LONE_OTHERS)
			return;
	for (size_t i = 0; i < l->count && size; i++)
		if (is_of_pass(&l->list[i]) && is_of_cache(c, &l->list[i]))
			l->list[i].category = CATEGORY_KV_CACHE;
}
