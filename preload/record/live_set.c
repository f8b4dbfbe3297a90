#define _GNU_SOURCE
#include "record/live_set.h"

#include <sys/mman.h>

#include "base/mapping.h"

#define FIRST_SLOTS 4096u

static const uint8_t effects[] = {
#define EVENT(name, id, layer, effect, meaning) [id] = MT_EFFECT_##effect,
#include <memtrace/events.def>
#undef EVENT
};

static int has_effect(unsigned kind, unsigned effect)
{
	return kind < sizeof(effects) && effects[kind] == effect;
}

/* A FREE's id is its ALLOC's plus one (events.def). */
unsigned live_set_freed_by(unsigned alloc)
{
	return has_effect(alloc, MT_EFFECT_ALLOC) && has_effect(alloc + 1, MT_EFFECT_FREE)
		       ? alloc + 1
		       : 0;
}

unsigned live_set_allocated_by(unsigned freed)
{
	return has_effect(freed, MT_EFFECT_FREE) ? freed - 1 : 0;
}

static size_t home(const struct live_set *set, unsigned kind, uint64_t address)
{
	return (size_t)(((address >> 8) + (uint64_t)kind * 0x10001u) * 0x9e3779b97f4a7c15u >> 20) &
	       set->mask;
}

static int grow(struct live_set *set)
{
	size_t slots = set->slot ? (set->mask + 1) * 2 : FIRST_SLOTS;
	struct live_set bigger = { .mask = slots - 1 };

	/* After a refusal, the next event will hardly find memory: the next tries are after 1, 2,
	 * 4, 8, ... more events. */
	if (set->refused & (set->refused - 1)) {
		set->refused++;
		return -1;
	}
	bigger.slot = mapping_private(slots * sizeof(*bigger.slot), 0);
	if (!bigger.slot) {
		set->refused++;
		return -1;
	}
	if (set->slot) {
		for (size_t i = 0; i <= set->mask; i++)
			if (set->slot[i].kind)
				live_set_add(&bigger, &set->slot[i]);
		munmap(set->slot, (set->mask + 1) * sizeof(*set->slot));
	}
	*set = bigger;
	return 0;
}

int live_set_add(struct live_set *set, const struct mt_record *r)
{
	struct mt_record *known;
	size_t i;

	/* The table is fast up to half full; without memory to grow, up to seven of eight slots are
	 * used. */
	if ((!set->slot || set->count * 2 > set->mask) && grow(set) != 0 &&
	    (!set->slot || set->count >= set->mask / 8 * 7))
		return -1;
	known = live_set_find(set, r->kind, r->address);
	if (known) {
		*known = *r;
		return 0;
	}
	for (i = home(set, r->kind, r->address); set->slot[i].kind; i = (i + 1) & set->mask)
		;
	set->slot[i] = *r;
	set->count++;
	return 0;
}

struct mt_record *live_set_find(const struct live_set *set, unsigned kind, uint64_t address)
{
	if (!set->slot)
		return NULL;
	for (size_t i = home(set, kind, address); set->slot[i].kind; i = (i + 1) & set->mask)
		if (set->slot[i].address == address && set->slot[i].kind == kind)
			return &set->slot[i];
	return NULL;
}

/* Closes the gap so that every entry stays reachable from its home slot. */
void live_set_remove(struct live_set *set, struct mt_record *found)
{
	size_t hole = (size_t)(found - set->slot), i = hole, h;

	set->count--;
	for (;;) {
		i = (i + 1) & set->mask;
		if (!set->slot[i].kind)
			break;
		h = home(set, set->slot[i].kind, set->slot[i].address);
		if (((i - h) & set->mask) >= ((i - hole) & set->mask)) {
			set->slot[hole] = set->slot[i];
			hole = i;
		}
	}
	set->slot[hole].kind = 0;
}
