#define _GNU_SOURCE
#include "memory/physical.h"

#include <stddef.h>

/*
 * In these sets a record's time has another meaning: for a handle, its references and mappings;
 * for a mapping, its handle. All handles are kept under one kind; the kind of the record that
 * made a handle is in `thread`.
 */
#define HANDLE MT_PHYSICAL_ALLOC
#define REFERENCE 1ull
#define MAPPING (1ull << 32)

static uint8_t made_as(const struct mt_record *handle)
{
	return (uint8_t)handle->thread;
}

static struct mt_record *find_handle(const struct physical *p, uint64_t handle)
{
	return live_set_find(&p->handles, HANDLE, handle);
}

/* Takes FOUND out and returns 1 if neither a reference nor a mapping keeps it. */
static int remove_if_unused(struct physical *p, struct mt_record *found, struct mt_record *freed)
{
	if (found->time_ns)
		return 0;
	*freed = *found;
	freed->kind = made_as(found);
	live_set_remove(&p->handles, found);
	return 1;
}

int physical_create(struct physical *p, const struct mt_record *r, struct mt_record *freed)
{
	struct mt_record filed = *r, *known = find_handle(p, r->address);

	if (known && r->kind == MT_ALIAS_OPEN) {
		physical_retain(p, r->address);
		return 0;
	}
	if (known) {
		*freed = *known;
		freed->kind = made_as(known);
	}
	filed.kind = HANDLE;
	filed.thread = r->kind;
	filed.time_ns = REFERENCE;
	return live_set_add(&p->handles, &filed);
}

void physical_retain(struct physical *p, uint64_t handle)
{
	struct mt_record *found = find_handle(p, handle);

	if (found)
		found->time_ns += REFERENCE;
}

int physical_release(struct physical *p, uint64_t handle, struct mt_record *freed)
{
	struct mt_record *found = find_handle(p, handle);

	if (!found || !(found->time_ns % MAPPING))
		return 0;
	found->time_ns -= REFERENCE;
	return remove_if_unused(p, found, freed);
}

int physical_map(struct physical *p, uint64_t handle, struct mt_record *map)
{
	struct mt_record *found = find_handle(p, handle), filed;

	if (!found)
		return 0;
	map->device = found->device;
	filed = *map;
	filed.time_ns = handle;
	if (live_set_add(&p->mappings, &filed) != 0)
		return -1;
	found->time_ns += MAPPING;
	return 1;
}

int physical_unmap(struct physical *p, uint64_t address, struct mt_record *map, uint64_t *handle,
		   struct mt_record *freed)
{
	struct mt_record *mapping = live_set_find(&p->mappings, MT_MAP, address), *found;

	if (!mapping)
		return 0;
	*map = *mapping;
	*handle = mapping->time_ns;
	live_set_remove(&p->mappings, mapping);
	found = find_handle(p, *handle);
	if (!found || found->time_ns < MAPPING)
		return 1;
	found->time_ns -= MAPPING;
	return remove_if_unused(p, found, freed) ? 2 : 1;
}

uint64_t physical_next_mapping(const struct physical *p, uint64_t from, uint64_t end)
{
	for (size_t i = 0; p->mappings.slot && i <= p->mappings.mask; i++) {
		const struct mt_record *m = &p->mappings.slot[i];
		if (m->kind && m->address > from && m->address < end)
			end = m->address;
	}
	return end;
}
