/*
 * The allocations that are live: a hash of (layer, address) to the record that made each. Open
 * addressing, linear probing, no tombstones: memory follows the number of live allocations, not of
 * events.
 */
#ifndef MEMTRACE_LIVE_SET_H
#define MEMTRACE_LIVE_SET_H

#include <memtrace/trace.h>

#include "util/util.h"

struct live_set {
	struct mt_record *slots; /* kind 0: empty */
	size_t count;
	size_t mask; /* slots - 1, a power of two */
	unsigned shift;
};

void live_set_init(struct live_set *l);
void live_set_release(struct live_set *l);
void live_set_clear(struct live_set *l);

/* Layers are last_reported apart by the kind of ALLOC event, so that a free looks up the kind that made what
 * it frees. */
static inline size_t live_set_slot(const struct live_set *l, unsigned kind, uint64_t address)
{
	return (size_t)(((address ^ (uint64_t)kind << 58) * 0x9e3779b97f4a7c15u) >> l->shift);
}

/* To take one out looks at the next slot too, which may be the next line's. */
static inline void live_set_prefetch(const struct live_set *l, unsigned kind, uint64_t address)
{
	const struct mt_record *slot = &l->slots[live_set_slot(l, kind, address)];

	__builtin_prefetch(slot, 1);
	__builtin_prefetch(slot + 1, 1);
}

/* Adds or replaces; returns whether it was new. */
int live_set_add(struct live_set *l, const struct mt_record *r);
/* NULL if it is not there. */
const struct mt_record *live_set_find(const struct live_set *l, unsigned kind, uint64_t address);
/* Removes, and gives what was there. Returns whether it was. */
int live_set_take(struct live_set *l, unsigned kind, uint64_t address, struct mt_record *was);

static inline int live_set_remove(struct live_set *l, unsigned kind, uint64_t address)
{
	struct mt_record was;

	return live_set_take(l, kind, address, &was);
}

#endif
