/*
 * Physical memory of the virtual memory API: a handle's bytes stay while it has a reference or a
 * mapping. Knows no CUDA. Not thread-safe. What is not known is left alone.
 */
#ifndef PRELOAD_PHYSICAL_H
#define PRELOAD_PHYSICAL_H

#include <memtrace/trace.h>

#include "record/live_set.h"

struct physical {
	struct live_set handles, mappings;
};

/* R is a new handle (its `address`) with one reference; an import that is there already gets one
 * more. 0, or -1 without memory. GONE is what had that handle until now, and must have gone unseen.
 */
int physical_create(struct physical *p, const struct mt_record *r, struct mt_record *gone);

/* One more reference to HANDLE. */
void physical_retain(struct physical *p, uint64_t handle);

/* A reference to HANDLE goes. Returns 1 when it was the last thing that kept the memory, and fills
 * GONE, which was made by it. */
int physical_release(struct physical *p, uint64_t handle, struct mt_record *gone);

/* MAP (an MT_MAP record) maps a part of HANDLE, whose device becomes its own. Returns 1 when HANDLE
 * is known, 0 when not, -1 without memory. */
int physical_map(struct physical *p, uint64_t handle, struct mt_record *map);

/*
 * The mapping that begins at ADDRESS goes: fills MAP and HANDLE and returns 1; 2 when it was the
 * last thing that kept the memory, which GONE is then. 0: no mapping begins there.
 */
int physical_unmap(struct physical *p, uint64_t address, struct mt_record *map, uint64_t *handle,
		   struct mt_record *gone);

/* Where the first mapping after FROM begins that begins before END; END: nowhere. */
uint64_t physical_next_mapping(const struct physical *p, uint64_t from, uint64_t end);

#endif
