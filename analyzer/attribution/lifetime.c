#include "attribution/lifetime.h"
#include "util/order.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct lifetime *)a)->alloc.address,
		 y = ((const struct lifetime *)b)->alloc.address;

	return ORDER(x, y);
}

void lifetimes_add(struct lifetimes *l, const struct mt_record *alloc)
{
	l->list = grow(l->list, l->count, &l->room, sizeof(*l->list));
	l->list[l->count++] = (struct lifetime){ .alloc = *alloc, .freed_ns = LIFETIME_OPEN };
	if (alloc->time_ns > l->until_ns)
		l->until_ns = alloc->time_ns;
}

void lifetimes_sort(struct lifetimes *l)
{
	if (l->count)
		qsort(l->list, l->count, sizeof(*l->list), by_address);
}

void lifetimes_release(struct lifetimes *l)
{
	free(l->list);
	*l = (struct lifetimes){ 0 };
}

void lifetimes_end(struct lifetimes *l, const struct mt_record *alloc,
		   const struct mt_record *freed, int is_transient)
{
	struct lifetime key = { .alloc = *alloc }, *found;

	if (!l->count || alloc->time_ns > l->until_ns)
		return;
	found = bsearch(&key, l->list, l->count, sizeof(*l->list), by_address);
	if (!found || found->alloc.time_ns != alloc->time_ns || found->alloc.kind != alloc->kind ||
	    found->alloc.device != alloc->device)
		return;
	found->freed_ns = freed->time_ns;
	found->freed_stack = freed->stack;
	found->freed_thread = freed->thread;
	found->is_transient = (uint8_t)(is_transient && alloc->time_ns == l->until_ns);
}

int lifetime_by_time(const void *a, const void *b)
{
	const struct mt_record *x = &(*(const struct lifetime *const *)a)->alloc,
			       *y = &(*(const struct lifetime *const *)b)->alloc;

	return ORDER(x->time_ns, y->time_ns);
}

int lifetime_by_stack(const void *a, const void *b)
{
	const struct mt_record *x = &(*(const struct lifetime *const *)a)->alloc,
			       *y = &(*(const struct lifetime *const *)b)->alloc;

	return x->stack != y->stack ? ORDER(x->stack, y->stack) : ORDER(x->time_ns, y->time_ns);
}
