#include "attribution/lifetime.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct life *)a)->born.address,
		 y = ((const struct life *)b)->born.address;

	return (x > y) - (x < y);
}

void lives_collect(struct lives *l, const struct live *from, int device, lives_filter *is_wanted,
		   const void *context)
{
	size_t room = 0;

	*l = (struct lives){ 0 };
	for (size_t i = 0; i <= from->mask; i++) {
		const struct mt_record *r = &from->slots[i];

		if (!is_wanted(context, r, device))
			continue;
		l->list = grow(l->list, l->count, &room, sizeof(*l->list));
		l->list[l->count++] = (struct life){ .born = *r, .died_ns = LIFE_OPEN };
		if (r->time_ns > l->until_ns)
			l->until_ns = r->time_ns;
	}
	if (l->count)
		qsort(l->list, l->count, sizeof(*l->list), by_address);
}

void lives_release(struct lives *l)
{
	free(l->list);
	*l = (struct lives){ 0 };
}

void lives_end(struct lives *l, const struct mt_record *was, const struct mt_record *by,
	       int at_once)
{
	struct life key = { .born = *was }, *found;

	if (!l->count || was->time_ns > l->until_ns)
		return;
	found = bsearch(&key, l->list, l->count, sizeof(*l->list), by_address);
	if (!found || found->born.time_ns != was->time_ns || found->born.kind != was->kind ||
	    found->born.device != was->device)
		return;
	found->died_ns = by->time_ns;
	found->freed_stack = by->stack;
	found->died_thread = by->thread;
	found->at_once = (uint8_t)(at_once && was->time_ns == l->until_ns);
}
