#include "import/placed.h"

#include <stdlib.h>

#include "util/util.h"

static uint64_t of_kind(unsigned device, int kind)
{
	return device | (unsigned)kind << 8;
}

struct placed *placed_find(struct placed *all, unsigned device, int kind, uint64_t address)
{
	const uint64_t key[2] = { of_kind(device, kind), address };
	struct placed *found;

	/* NOLINTNEXTLINE(clang-analyzer-core.*): the bytes of both numbers are set */
	HASH_FIND(hh, all, key, sizeof(key), found);
	return found;
}

void placed_add(struct placed **all, unsigned device, int kind, uint64_t address, int64_t size)
{
	struct placed *p = placed_find(*all, device, kind, address);

	if (!p) {
		p = xcalloc(1, sizeof(*p));
		p->key[0] = of_kind(device, kind);
		p->key[1] = address;
		HASH_ADD(hh, *all, key, sizeof(p->key), p);
	}
	p->size = size;
}

void placed_drop(struct placed **all, struct placed *p)
{
	HASH_DEL(*all, p);
	free(p);
}

void placed_release(struct placed **all)
{
	HASH_RELEASE(*all);
}
