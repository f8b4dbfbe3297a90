/*
 * The allocations that are live, by address: the records that made them. Not thread-safe. Memory
 * comes from mmap, so that nothing here enters the host's malloc; when there is none, the set stays
 * as it is and the call says so.
 */
#ifndef PRELOAD_LIVE_SET_H
#define PRELOAD_LIVE_SET_H

#include <memtrace/trace.h>
#include <stddef.h>

struct live_set {
	struct mt_record *slot; /* kind 0: free */
	size_t mask;
	size_t count;
	size_t refused; /* times that a larger set was needed and not asked for, or not had */
};

/* The event that ends what ALLOC began (MT_DEVICE_ALLOC -> MT_DEVICE_FREE), and the reverse. 0:
 * none. */
unsigned live_set_freed_by(unsigned alloc);
unsigned live_set_allocated_by(unsigned freed);

/* Adds `r`, replacing one of the same kind and address. Returns 0, or -1 without memory. */
int live_set_add(struct live_set *set, const struct mt_record *r);

/* Finds the allocation that a free of `kind` (an ALLOC kind) at `address` ends. NULL: not known.
 * Valid until the next change. */
struct mt_record *live_set_find(const struct live_set *set, unsigned kind, uint64_t address);

void live_set_remove(struct live_set *set, struct mt_record *found);

#endif
