/* Blocks and segments by their address, in a hash table. Each begins and ends as a whole. */
#ifndef MEMTRACE_IMPORT_PLACED_H
#define MEMTRACE_IMPORT_PLACED_H

#include <stdint.h>

#include "util/hash.h"

struct placed {
	uint64_t key[2]; /* device and kind, address */
	int64_t size;
	UT_hash_handle hh;
};

/* NULL: nothing of the kind is there. */
struct placed *placed_find(struct placed *all, unsigned device, int kind, uint64_t address);
/* Replaces what is there. */
void placed_add(struct placed **all, unsigned device, int kind, uint64_t address, int64_t size);
void placed_drop(struct placed **all, struct placed *p);
void placed_release(struct placed **all);

#endif
