#include "replay/snapshot.h"

#include <stdlib.h>

/* Groups by key, for one snapshot. */
struct grouping {
	struct group *groups;
	size_t count, room;
	uint32_t *index; /* group + 1, 0: empty */
	size_t mask;
};

static uint64_t hash_of(const struct group *g)
{
	uint64_t key = g->key ^ (uint64_t)g->thread << 8 ^ g->category;

	return (key * 0x9e3779b97f4a7c15u) >> 32;
}

static int is_same(const struct group *a, const struct group *b)
{
	return a->key == b->key && a->thread == b->thread && a->category == b->category;
}

static void reindex(struct grouping *g)
{
	g->mask = g->mask ? g->mask * 2 + 1 : 1023;
	free(g->index);
	g->index = xcalloc(g->mask + 1, sizeof(*g->index));
	for (size_t i = 0; i < g->count; i++) {
		size_t at = hash_of(&g->groups[i]) & g->mask;

		while (g->index[at])
			at = (at + 1) & g->mask;
		g->index[at] = (uint32_t)i + 1;
	}
}

static struct group *group_of(struct grouping *g, const struct group *key)
{
	size_t at;

	if (g->count * 2 >= g->mask)
		reindex(g);
	for (at = hash_of(key) & g->mask; g->index[at]; at = (at + 1) & g->mask)
		if (is_same(&g->groups[g->index[at] - 1], key))
			return &g->groups[g->index[at] - 1];
	g->groups = grow(g->groups, g->count, &g->room, sizeof(*g->groups));
	g->groups[g->count] = *key;
	g->groups[g->count].smallest = INT64_MAX;
	g->index[at] = (uint32_t)++g->count;
	return &g->groups[g->count - 1];
}

static int by_bytes(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->category != y->category)
		return x->category < y->category ? -1 : 1;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

struct snapshot snapshot_of(const struct lives *l, const struct tables *t)
{
	struct grouping g = { 0 };
	struct snapshot s = { 0 };

	for (size_t i = 0; i < l->count; i++) {
		const struct mt_record *r = &l->list[i].born;
		struct group key = { .category = l->list[i].category }, *to;

		key.stack = r->stack < t->stack_count ? r->stack : MT_NO_STACK;
		key.key = tables_stack_info(t, key.stack)->inside;
		if (!key.key)
			key.key = key.stack;
		key.thread = tables_stack(t, key.stack)->frame_count ? 0 : r->thread;
		to = group_of(&g, &key);
		to->bytes = bytes_add(to->bytes, r->bytes);
		to->blocks++;
		to->smallest = r->bytes < to->smallest ? r->bytes : to->smallest;
		to->largest = r->bytes > to->largest ? r->bytes : to->largest;
		s.bytes = bytes_add(s.bytes, r->bytes);
		s.by_category[key.category] = bytes_add(s.by_category[key.category], r->bytes);
		s.blocks++;
	}
	if (g.count)
		qsort(g.groups, g.count, sizeof(*g.groups), by_bytes);
	free(g.index);
	s.groups = g.groups;
	s.count = g.count;
	return s;
}
