/*
 * Physical memory of the virtual memory API: the bytes of a handle stay allocated while it has a
 * reference or a mapping. Does not call CUDA. Not thread-safe. Unknown handles are ignored.
 */
#ifndef PRELOAD_PHYSICAL_H
#define PRELOAD_PHYSICAL_H

#include <memtrace/trace.h>

#include "record/live_set.h"

struct physical {
	struct live_set handles, mappings;
};

/* R is a new handle (its `address`) with one reference; an import of a known handle gets one more.
 * Returns 0, or -1 without memory. FREED is the allocation that had this handle before: its end was
 * not seen. */
int physical_create(struct physical *p, const struct mt_record *r, struct mt_record *freed);

/* One more reference to HANDLE. */
void physical_retain(struct physical *p, uint64_t handle);

/* Drops a reference to HANDLE. If nothing else keeps the memory, returns 1 and the freed allocation
 * in FREED. */
int physical_release(struct physical *p, uint64_t handle, struct mt_record *freed);

/* MAP (an MT_MAP record) maps a part of HANDLE, whose device becomes its own. Returns 1 if HANDLE
 * is known, 0 if not, -1 without memory. */
int physical_map(struct physical *p, uint64_t handle, struct mt_record *map);

/*
 * Removes the mapping that begins at ADDRESS. Returns 1 and fills MAP and HANDLE; 2 if nothing else
 * keeps the memory, then also FREED, the freed allocation; 0 if no mapping begins there.
 */
int physical_unmap(struct physical *p, uint64_t address, struct mt_record *map, uint64_t *handle,
		   struct mt_record *freed);

/* The address of the first mapping that begins after FROM and before END; END if there is none. */
uint64_t physical_next_mapping(const struct physical *p, uint64_t from, uint64_t end);

#endif
