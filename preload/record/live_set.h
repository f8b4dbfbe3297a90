/*
 * The live set: the record of each live allocation, by kind and address. Not thread-safe. Memory
 * comes from mmap(), never from the job's heap; without memory the set does not change, and the
 * call returns an error.
 *
 * uthash is not used here. It calls malloc() for each entry, which a hook must not do: its caller
 * may hold a lock of the job's allocator. It also takes 32 + 56 bytes an entry in two cache lines,
 * against 32 bytes in one here. docs/performance.md has the cost of an event with its
 * hook (`make bench`).
 */
#ifndef PRELOAD_LIVE_SET_H
#define PRELOAD_LIVE_SET_H

#include <memtrace/trace.h>
#include <stddef.h>

struct live_set {
	struct mt_record *slot; /* kind 0: free */
	size_t mask;
	size_t count;
	size_t refused; /* number of times that a larger set was needed and there was no memory */
};

/* The kind of event that frees what ALLOC allocated (MT_DEVICE_ALLOC -> MT_DEVICE_FREE), and the
 * reverse; 0: none. */
unsigned live_set_freed_by(unsigned alloc);
unsigned live_set_allocated_by(unsigned freed);

/* Adds `r`; it replaces a record of the same kind and address. Returns 0, or -1 without memory. */
int live_set_add(struct live_set *set, const struct mt_record *r);

/* The allocation of `kind` (an ALLOC kind) at `address`; NULL: none is known. The pointer is valid
 * until the next change. */
struct mt_record *live_set_find(const struct live_set *set, unsigned kind, uint64_t address);

void live_set_remove(struct live_set *set, struct mt_record *found);

#endif
