#include "replay/snapshot.h"

#include "attribution/attribution.h"
#include "util/hash.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

/* The common values of a group's blocks. They are hashed as bytes, so the padding must be zero. */
struct group_key {
	uint64_t stack; /* hash of the frames inside of the model, or the stack's id without any */
	uint32_t origin;
	uint16_t thread;
	uint8_t category;
};

struct entry {
	struct group_key key;
	struct block_group group;
	UT_hash_handle hh;
};

static struct block_group *group_of(struct entry **all, const struct group_key *key, uint32_t stack)
{
	struct entry *found;

	HASH_FIND(hh, *all, key, sizeof(*key), found);
	if (found)
		return &found->group;
	found = xcalloc(1, sizeof(*found));
	memcpy(&found->key, key, sizeof(*key));
	found->group = (struct block_group){ .stack = stack,
					     .thread = key->thread,
					     .category = key->category,
					     .origin = key->origin,
					     .smallest = INT64_MAX };
	HASH_ADD(hh, *all, key, sizeof(*key), found);
	return &found->group;
}

static void add_block(struct entry **all, const struct lifetime *l, const struct tables *t)
{
	const struct mt_record *r = &l->alloc;
	uint32_t stack = r->stack < t->stack_count ? r->stack : MT_NO_STACK;
	struct group_key key;
	struct block_group *to;

	memset(&key, 0, sizeof(key));
	key.stack = tables_stack_info(t, stack)->model_hash;
	if (!key.stack)
		key.stack = stack;
	key.thread = tables_stack(t, stack)->frame_count ? 0 : r->thread;
	key.category = l->category;
	key.origin = l->origin;
	to = group_of(all, &key, stack);
	to->bytes = bytes_add(to->bytes, r->bytes);
	to->blocks++;
	if (sizes_are_alike(r->bytes, to->largest))
		to->alike++;
	else if (r->bytes > to->largest)
		to->alike = 1;
	to->smallest = r->bytes < to->smallest ? r->bytes : to->smallest;
	to->largest = r->bytes > to->largest ? r->bytes : to->largest;
}

static int by_bytes(const void *a, const void *b)
{
	const struct block_group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return ORDER(y->bytes, x->bytes);
	if (x->stack != y->stack)
		return ORDER(x->stack, y->stack);
	if (x->category != y->category)
		return ORDER(x->category, y->category);
	if (x->origin != y->origin)
		return ORDER(x->origin, y->origin);
	return ORDER(x->thread, y->thread);
}

/* Moves the groups out of the hash table, which is freed. */
static void take_groups(struct snapshot *s, struct entry *all)
{
	struct entry *e = all, *next;

	s->groups = xcalloc(HASH_COUNT(all), sizeof(*s->groups));
	HASH_CLEAR(hh, all); /* the links between the entries stay */
	for (; e; e = next) {
		next = e->hh.next;
		s->groups[s->count++] = e->group;
		free(e);
	}
	if (s->count)
		qsort(s->groups, s->count, sizeof(*s->groups), by_bytes);
}

struct snapshot snapshot_of(const struct lifetimes *l, const struct tables *t)
{
	struct entry *all = NULL;
	struct snapshot s = { 0 };

	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];

		add_block(&all, x, t);
		s.bytes = bytes_add(s.bytes, x->alloc.bytes);
		s.by_category[x->category] = bytes_add(s.by_category[x->category], x->alloc.bytes);
		s.blocks++;
		if (x->category == CATEGORY_PARAMETERS)
			size_counts_add(&s.parameters, x->alloc.bytes);
	}
	take_groups(&s, all);
	size_counts_sort(&s.parameters);
	return s;
}

void snapshot_release(struct snapshot *s)
{
	free(s->groups);
	size_counts_release(&s->parameters);
	*s = (struct snapshot){ 0 };
}
