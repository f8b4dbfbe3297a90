#include "replay/live_set.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BITS 8

/* A slot lies in one cache line, so that one prefetch loads all of it. */
static_assert(CACHE_LINE % sizeof(struct mt_record) == 0, "slots do not cross lines");

static void make_slots(struct live_set *l, unsigned bits)
{
	l->slots = xaligned(CACHE_LINE, (size_t)1 << bits, sizeof(*l->slots));
	l->mask = ((size_t)1 << bits) - 1;
	l->shift = 64 - bits;
	l->count = 0;
}

void live_set_init(struct live_set *l)
{
	make_slots(l, FIRST_BITS);
}

void live_set_release(struct live_set *l)
{
	free(l->slots);
	*l = (struct live_set){ 0 };
}

void live_set_clear(struct live_set *l)
{
	memset(l->slots, 0, (l->mask + 1) * sizeof(*l->slots));
	l->count = 0;
}

void live_set_enlarge(struct live_set *l)
{
	struct mt_record *old = l->slots;
	size_t n = l->mask + 1, count = l->count;

	make_slots(l, 64 - l->shift + 1);
	for (size_t i = 0; i < n; i++)
		if (old[i].kind)
			l->slots[live_set_look_up(l, old[i].kind, old[i].address)] = old[i];
	l->count = count;
	free(old);
}

int live_set_replace(struct live_set *l, const struct mt_record *r, struct mt_record *was)
{
	const struct mt_record *slot = live_set_find(l, r->kind, r->address);

	if (slot)
		*was = *slot;
	return live_set_add(l, r);
}

const struct mt_record *live_set_find(const struct live_set *l, unsigned kind, uint64_t address)
{
	const struct mt_record *r = &l->slots[live_set_look_up(l, kind, address)];

	return r->kind ? r : NULL;
}

void live_set_empty(struct live_set *l, size_t slot)
{
	size_t hole = slot, i = slot;

	/* Records behind the hole whose own slot is before it move into the hole. */
	for (;;) {
		size_t home;

		i = (i + 1) & l->mask;
		if (!l->slots[i].kind)
			break;
		home = live_set_slot(l, l->slots[i].kind, l->slots[i].address);
		if (((i - home) & l->mask) >= ((i - hole) & l->mask)) {
			l->slots[hole] = l->slots[i];
			hole = i;
		}
	}
	l->slots[hole].kind = 0;
}
