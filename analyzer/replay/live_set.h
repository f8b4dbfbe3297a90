/*
 * The allocations that are live: a hash of (layer, address) to the record that made each. Open
 * addressing, linear probing, no tombstones: memory follows the number of live allocations, not of
 * events.
 */
#ifndef MEMTRACE_LIVE_H
#define MEMTRACE_LIVE_H

#include <memtrace/trace.h>

#include "util/util.h"

struct live {
	struct mt_record *slots; /* kind 0: empty */
	size_t count;
	size_t mask; /* slots - 1, a power of two */
	unsigned shift;
};

void live_init(struct live *l);
void live_release(struct live *l);
void live_clear(struct live *l);

/* Layers are told apart by the kind of ALLOC event, so that a free looks up the kind that made what
 * it frees. */
static inline size_t live_slot(const struct live *l, unsigned kind, uint64_t address)
{
	return (size_t)(((address ^ (uint64_t)kind << 58) * 0x9e3779b97f4a7c15u) >> l->shift);
}

/* To take one out looks at the next slot too, which may be the next line's. */
static inline void live_prefetch(const struct live *l, unsigned kind, uint64_t address)
{
	const struct mt_record *slot = &l->slots[live_slot(l, kind, address)];

	__builtin_prefetch(slot, 1);
	__builtin_prefetch(slot + 1, 1);
}

/* Adds or replaces; returns whether it was new. */
int live_add(struct live *l, const struct mt_record *r);
/* NULL if it is not there. */
const struct mt_record *live_find(const struct live *l, unsigned kind, uint64_t address);
/* Removes, and gives what was there. Returns whether it was. */
int live_take(struct live *l, unsigned kind, uint64_t address, struct mt_record *was);

static inline int live_remove(struct live *l, unsigned kind, uint64_t address)
{
	struct mt_record was;

	return live_take(l, kind, address, &was);
}

#endif
