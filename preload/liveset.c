#define _GNU_SOURCE
#include "liveset.h"

#include <sys/mman.h>

#define FIRST_SLOTS 4096u

static const struct {
	uint8_t layer, effect;
} events[] = {
#define EVENT(name, id, layer, effect, meaning) [id] = { MT_LAYER_##layer, MT_EFFECT_##effect },
#include <memtrace/events.def>
#undef EVENT
};

/* The event of the same layer with the other effect. */
static unsigned counterpart(unsigned kind, unsigned effect, unsigned other)
{
	unsigned kinds = sizeof(events) / sizeof(events[0]);

	if (kind >= kinds || events[kind].effect != effect)
		return 0;
	for (unsigned k = 1; k < kinds; k++)
		if (events[k].effect == other && events[k].layer == events[kind].layer)
			return k;
	return 0;
}

unsigned liveset_freed_by(unsigned alloc)
{
	return counterpart(alloc, MT_EFFECT_ALLOC, MT_EFFECT_FREE);
}

unsigned liveset_begun_by(unsigned freed)
{
	return counterpart(freed, MT_EFFECT_FREE, MT_EFFECT_ALLOC);
}

static size_t home(const struct liveset *set, unsigned kind, uint64_t address)
{
	return (size_t)(((address >> 8) + kind * 0x10001u) * 0x9e3779b97f4a7c15u >> 20) & set->mask;
}

static int grow(struct liveset *set)
{
	size_t slots = set->slot ? (set->mask + 1) * 2 : FIRST_SLOTS;
	struct liveset bigger = { .mask = slots - 1 };

	bigger.slot = mmap(NULL, slots * sizeof(*bigger.slot), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bigger.slot == MAP_FAILED)
		return -1;
	if (set->slot) {
		for (size_t i = 0; i <= set->mask; i++)
			if (set->slot[i].kind)
				liveset_add(&bigger, &set->slot[i]);
		munmap(set->slot, (set->mask + 1) * sizeof(*set->slot));
	}
	*set = bigger;
	return 0;
}

int liveset_add(struct liveset *set, const struct mt_record *r)
{
	struct mt_record *known;
	size_t i;

	if ((!set->slot || set->count * 2 > set->mask) && grow(set) != 0)
		return -1;
	known = liveset_find(set, r->kind, r->address);
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

struct mt_record *liveset_find(const struct liveset *set, unsigned kind, uint64_t address)
{
	if (!set->slot)
		return NULL;
	for (size_t i = home(set, kind, address); set->slot[i].kind; i = (i + 1) & set->mask)
		if (set->slot[i].address == address && set->slot[i].kind == kind)
			return &set->slot[i];
	return NULL;
}

/* Closes the gap so that every entry stays reachable from its home slot. */
void liveset_remove(struct liveset *set, struct mt_record *found)
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
