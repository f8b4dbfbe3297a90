#define _GNU_SOURCE
#include "symbols/scope.h"

#include <stddef.h>
#include <string.h>

#include "base/lock.h"
#include "symbols/resolve.h"
#include "symbols/elf_symbols.h"

#define OBJECTS 2048

struct question {
	const char *symbol;
	uint32_t hash;
	const void *caller;
	struct scope_choice answer;
};

/* The loaded objects in the loader's order, and a walk through them, both protected by `lock`. */
static struct lock lock;
static struct {
	struct {
		const struct link_map *map;
		struct symbols symbols;
		int has_symbols;
		uint8_t seen;
	} object[OBJECTS];
	uint16_t queue[OBJECTS];
	unsigned objects, us;
} n;

static void *definition(unsigned i, const struct question *q, int *versioned)
{
	const ElfW(Sym) *y = NULL;

	if (i > n.us && n.object[i].has_symbols)
		y = symbols_find(&n.object[i].symbols, q->symbol, q->hash);
	if (!y)
		return NULL;
	if (versioned)
		*versioned = symbols_is_versioned(&n.object[i].symbols, y);
	return (void *)(n.object[i].map->l_addr + y->st_value);
}

/* Finds the object for a name like "libcudart.so.13" in DT_NEEDED: the first with that name, as the
 * loader does. */
static unsigned find_needed(const char *name)
{
	for (unsigned i = 0; i < n.objects; i++) {
		const char *soname = n.object[i].symbols.soname;
		if ((soname && symbols_same(soname, name)) ||
		    symbols_same(symbols_file(n.object[i].map->l_name), symbols_file(name)))
			return i;
	}
	return n.objects;
}

/* Walks object FROM and all that it needs, breadth first; fills the queue and returns the number of
 * objects. */
static unsigned walk(unsigned from)
{
	unsigned tail = 1;

	for (unsigned i = 0; i < n.objects; i++)
		n.object[i].seen = 0;
	n.queue[0] = (uint16_t)from;
	n.object[from].seen = 1;
	for (unsigned head = 0; head < tail; head++) {
		unsigned at = n.queue[head];
		if (!n.object[at].has_symbols)
			continue;
		for (const ElfW(Dyn) *d = n.object[at].map->l_ld; d->d_tag != DT_NULL; d++) {
			unsigned i =
				d->d_tag == DT_NEEDED
					? find_needed(n.object[at].symbols.names + d->d_un.d_val)
					: n.objects;
			if (i < n.objects && !n.object[i].seen) {
				n.object[i].seen = 1;
				n.queue[tail++] = (uint16_t)i;
			}
		}
	}
	return tail;
}

/* Was object I loaded when the program began? Then it is in the global scope, which comes first for
 * all callers. */
static int is_of_start(unsigned i)
{
	unsigned last = 0, walked = walk(0);

	for (unsigned k = 0; k < walked; k++)
		if (n.queue[k] > last)
			last = n.queue[k];
	return i <= last;
}

static unsigned object_of(const void *base)
{
	unsigned i = 0;

	while (i < n.objects && n.object[i].map->l_addr != (ElfW(Addr))base)
		i++;
	return i;
}

static void list(void)
{
	n.objects = 0;
	for (const struct link_map *m = _r_debug.r_map; m && n.objects < OBJECTS; m = m->l_next) {
		unsigned i = n.objects++;
		n.object[i].map = m;
		n.object[i].has_symbols =
			symbols_read(m->l_addr, m->l_ld, &n.object[i].symbols) == 0;
		if (resolve_is_ours(m->l_ld))
			n.us = i;
	}
}

/*
 * The loader's order is: objects loaded at the start, then objects loaded later into the global
 * scope, then the caller's own libraries. A definition that was loaded at the start and has no
 * version (a simulated device, a shim, NCCL) goes to all callers. Else the caller's own is right
 * except in one case: a library loaded later into the global scope, which no public list shows.
 */
static void choose(struct question *q)
{
	unsigned first = n.objects, from = object_of(q->caller), walked;
	int versioned = 0;

	for (unsigned i = 0; i < n.objects; i++) {
		void *f = definition(i, q, first == n.objects ? &versioned : NULL);
		if (f && !q->answer.definitions++) {
			q->answer.first = f;
			first = i;
		}
	}
	if (q->answer.definitions > 1 && !versioned && is_of_start(first)) {
		q->answer.chosen = q->answer.first;
		return;
	}
	walked = from < n.objects ? walk(from) : 0;
	for (unsigned k = 0; k < walked && !q->answer.chosen; k++)
		q->answer.chosen = definition(n.queue[k], q, NULL);
}

/* The loader changes its list under the lock that dl_iterate_phdr() holds: all work is done in the
 * first call of this function. */
static int visit(struct dl_phdr_info *o, size_t size, void *data)
{
	(void)o;
	(void)size;
	list();
	choose(data);
	return 1;
}

void scope_forget(void)
{
	lock_release(&lock);
}

struct scope_choice scope_choose(const char *symbol, const void *caller)
{
	struct question q = { .symbol = symbol, .hash = symbols_hash(symbol) };
	char path[2];

	q.caller = resolve_module(caller, path, sizeof(path));
	if (q.caller == (void *)1) /* the start of a program that is not relocated */
		q.caller = NULL;
	if (!lock_acquire(&lock, LOCK_MS(100)))
		return (struct scope_choice){ .first = resolve(symbol) };
	dl_iterate_phdr(visit, &q);
	lock_release(&lock);
	return q.answer;
}
