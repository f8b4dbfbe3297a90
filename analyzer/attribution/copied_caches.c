#include "attribution/copied_caches.h"

#include "util/size_counts.h"

static int is_of_cache(const struct block_context *c, const struct lifetime *l)
{
	return block_context_hint(c, tables_stack_info(c->in.tables, l->alloc.stack)) ==
	       HINT_KV_CACHE;
}

static int is_copy(const struct block_context *c, const struct lifetime *l)
{
	const struct stack_info *p = tables_stack_info(c->in.tables, l->alloc.stack);

	return p->tags & TAGGED(COPY) && block_context_hint(c, p) == HINT_NOTHING;
}

void find_copied_caches(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts sizes = { 0 };
	int copied = 0;

	for (size_t i = 0; i < l->count; i++)
		if (is_of_cache(c, &l->list[i]))
			size_counts_add(&sizes, l->list[i].alloc.bytes);
	size_counts_sort(&sizes);
	for (size_t i = 0; i < l->count && sizes.count; i++)
		if (is_copy(c, &l->list[i]) &&
		    size_counts_count_near(&sizes, l->list[i].alloc.bytes)) {
			l->list[i].category = CATEGORY_KV_CACHE;
			copied = 1;
		}
	for (size_t i = 0; i < l->count && copied; i++)
		if (l->list[i].category == CATEGORY_ACTIVATIONS && is_of_cache(c, &l->list[i]))
			l->list[i].category = CATEGORY_KV_CACHE;
	size_counts_release(&sizes);
}
