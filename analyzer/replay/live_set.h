/*
 * The live set: the allocations that are live, as a hash table from (layer, address) to the record
 * of the allocation. Open addressing, linear probing, no tombstones. Its memory is proportional to
 * the number of live allocations, not to the number of events.
 *
 * It is not uthash: a slot is 32 bytes in one cache line, against 32 + 56 bytes and an allocation
 * each. The replay looks up every record of a trace here, and `make bench` demands 10 million
 * records a second of one core; docs/performance.md has the number.
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

/* The layer of an entry is the kind of its ALLOC event: a FREE event looks up the kind that
 * allocated. */
static inline size_t live_set_slot(const struct live_set *l, unsigned kind, uint64_t address)
{
	return (size_t)(((address ^ (uint64_t)kind << 58) * 0x9e3779b97f4a7c15u) >> l->shift);
}

/* Removal also reads the next slot, which may lie on another cache line, so both are prefetched. */
static inline void live_set_prefetch(const struct live_set *l, unsigned kind, uint64_t address)
{
	const struct mt_record *slot = &l->slots[live_set_slot(l, kind, address)];

	__builtin_prefetch(slot, 1);
	__builtin_prefetch(slot + 1, 1);
}

/* The slot of a record, or the empty one where it belongs. */
static inline size_t live_set_look_up(const struct live_set *l, unsigned kind, uint64_t address)
{
	size_t i = live_set_slot(l, kind, address);

	while (l->slots[i].kind && (l->slots[i].address != address || l->slots[i].kind != kind))
		i = (i + 1) & l->mask;
	return i;
}

/* Doubles the slots. */
void live_set_enlarge(struct live_set *l);
/* Removes the record of a slot. */
void live_set_empty(struct live_set *l, size_t slot);

/* Adds a record, or replaces the one with its kind and address. Returns whether it is new. */
static inline int live_set_add(struct live_set *l, const struct mt_record *r)
{
	size_t i = live_set_look_up(l, r->kind, r->address);
	int is_new = !l->slots[i].kind;

	l->slots[i] = *r;
	l->count += (size_t)is_new;
	if (__builtin_expect(l->count > l->mask / 2 + 1, 0))
		live_set_enlarge(l);
	return is_new;
}

/* The same; one that is replaced is copied to `*was`. */
int live_set_replace(struct live_set *l, const struct mt_record *r, struct mt_record *was);
/* NULL if there is none. The pointer is valid until the next change. */
const struct mt_record *live_set_find(const struct live_set *l, unsigned kind, uint64_t address);

/* Removes a record and copies it to `*was`. Returns whether there was one. */
static inline int live_set_take(struct live_set *l, unsigned kind, uint64_t address,
				struct mt_record *was)
{
	size_t i = live_set_look_up(l, kind, address);

	if (!l->slots[i].kind)
		return 0;
	*was = l->slots[i];
	if (l->slots[(i + 1) & l->mask].kind)
		live_set_empty(l, i);
	else
		l->slots[i].kind = 0;
	l->count--;
	return 1;
}

static inline int live_set_remove(struct live_set *l, unsigned kind, uint64_t address)
{
	struct mt_record was;

	return live_set_take(l, kind, address, &was);
}

#endif
