#define _GNU_SOURCE
#include "resolve.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct symbols {
	const ElfW(Sym) * symbol;
	const char *names;
	const uint32_t *hash;     /* DT_GNU_HASH, or NULL */
	const uint32_t *old_hash; /* DT_HASH, or NULL */
};

struct query {
	const char *symbol;
	uint32_t gnu;
	enum { BEHIND_US, NOT_US } where;
	int passed_us;
	void *found;
};

static uint32_t gnu_hash(const char *s)
{
	uint32_t h = 5381;

	for (; *s; s++)
		h = h * 33 + (unsigned char)*s;
	return h;
}

/* glibc relocates the pointers of the dynamic section in place, other loaders and the vDSO do not.
 */
static const void *dynamic_pointer(const struct dl_phdr_info *o, ElfW(Addr) p)
{
	return (const void *)(p < o->dlpi_addr ? o->dlpi_addr + p : p);
}

static int read_dynamic_at(const struct dl_phdr_info *o, const ElfW(Dyn) * d, struct symbols *s)
{
	*s = (struct symbols){ 0 };
	for (; d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			s->symbol = dynamic_pointer(o, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			s->names = dynamic_pointer(o, d->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			s->hash = dynamic_pointer(o, d->d_un.d_ptr);
			break;
		case DT_HASH:
			s->old_hash = dynamic_pointer(o, d->d_un.d_ptr);
			break;
		default:
			break;
		}
	return s->symbol && s->names ? 0 : -1;
}

static int read_dynamic(const struct dl_phdr_info *o, struct symbols *s)
{
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return read_dynamic_at(
				o, (const ElfW(Dyn) *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr), s);
	return -1;
}

static const ElfW(Sym) * match(const struct symbols *s, uint32_t i, const char *name)
{
	const ElfW(Sym) *y = &s->symbol[i];
	unsigned type = ELF64_ST_TYPE(y->st_info);

	if (y->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT) ||
	    strcmp(s->names + y->st_name, name) != 0)
		return NULL;
	return y;
}

static const ElfW(Sym) * find_gnu(const struct symbols *s, const struct query *q)
{
	uint32_t buckets = s->hash[0], first = s->hash[1], words = s->hash[2], shift = s->hash[3];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)(s->hash + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
	const unsigned bits = 8 * sizeof(ElfW(Addr));
	ElfW(Addr) word = bloom[q->gnu / bits % words];
	const ElfW(Sym) * y;

	if (!(word >> (q->gnu % bits) & 1) || !(word >> ((q->gnu >> shift) % bits) & 1) || !buckets)
		return NULL;
	for (uint32_t i = bucket[q->gnu % buckets]; i >= first; i++) {
		uint32_t h = chain[i - first];
		if ((h | 1) == (q->gnu | 1) && (y = match(s, i, q->symbol)))
			return y;
		if (h & 1)
			break;
	}
	return NULL;
}

/* Where this object begins and ends, from the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

int resolve_is_ours(const void *address)
{
	return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

static int is_object_ours(const struct dl_phdr_info *o)
{
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_LOAD)
			return resolve_is_ours(
				(const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr));
	return 0;
}

/* Its own loop, see same(). */
static int begins(const char *s, const char *with)
{
	while (*with && *s == *with) {
		s++;
		with++;
		__asm__ volatile("");
	}
	return !*with;
}

static int is_libc(const char *path)
{
	const char *file = path;

	for (const char *p = path; *p; p++)
		if (*p == '/')
			file = p + 1;
	return begins(file, "libc.") || begins(file, "libdl.");
}

/* How many symbols a GNU hash table covers: up to the end of the chain that begins last. */
static uint32_t gnu_symbols(const struct symbols *s)
{
	uint32_t buckets = s->hash[0], first = s->hash[1], words = s->hash[2], last = 0;
	const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(s->hash + 4) + words),
		       *chain = bucket + buckets;

	for (uint32_t i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static int look(struct dl_phdr_info *o, size_t size, void *data)
{
	struct query *q = data;
	const ElfW(Sym) *y = NULL;
	struct symbols s;

	(void)size;
	if (is_object_ours(o)) {
		q->passed_us = 1;
		return 0;
	}
	if ((q->where == BEHIND_US && !q->passed_us) || read_dynamic(o, &s) != 0)
		return 0;
	if (s.hash)
		y = find_gnu(&s, q);
	else if (s.old_hash)
		for (uint32_t i = 0; i < s.old_hash[1] && !y; i++)
			y = match(&s, i, q->symbol);
	if (!y)
		return 0;
	q->found = (void *)(o->dlpi_addr + y->st_value);
	return 1;
}

static void *find(const char *symbol, int where)
{
	struct query q = { .symbol = symbol, .gnu = gnu_hash(symbol), .where = where };

	dl_iterate_phdr(look, &q);
	return q.found;
}

void *resolve(const char *symbol)
{
	return find(symbol, BEHIND_US);
}

void *resolve_anywhere(const char *symbol)
{
	return find(symbol, NOT_US);
}

/* As strcmp() == 0, but nobody's: a sanitizer that the host carries may define strcmp(), and be
 * just now looking for the real one. */
static int same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
		__asm__ volatile(""); /* not to be made a strcmp() again */
	}
	return *a == *b;
}

/*
 * By the loader's own list and not by dl_iterate_phdr(), which the host may define too: this is how
 * dlsym() itself is found, and may run before anything else is ready. The C library is near the
 * list's front and never leaves.
 */
void *resolve_in_libc(const char *symbol)
{
	for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
		struct dl_phdr_info o = { .dlpi_addr = m->l_addr, .dlpi_name = m->l_name };
		struct symbols s;
		uint32_t count;

		if (!is_libc(m->l_name))
			continue;
		read_dynamic_at(&o, m->l_ld, &s);
		if (!s.symbol || !s.names || (!s.hash && !s.old_hash))
			continue;
		count = s.old_hash ? s.old_hash[1] : gnu_symbols(&s);
		for (uint32_t i = 0; i < count; i++)
			if (s.symbol[i].st_shndx != SHN_UNDEF &&
			    same(s.names + s.symbol[i].st_name, symbol))
				return (void *)(m->l_addr + s.symbol[i].st_value);
	}
	return NULL;
}

struct whose {
	uintptr_t address;
	char *path;
	size_t bytes;
	const void *start;
};

static int look_module(struct dl_phdr_info *o, size_t size, void *data)
{
	struct whose *w = data;

	(void)size;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		uintptr_t start = o->dlpi_addr + p->p_vaddr;
		size_t n;
		if (p->p_type != PT_LOAD || w->address < start || w->address - start >= p->p_memsz)
			continue;
		n = strlen(o->dlpi_name);
		if (n >= w->bytes)
			n = w->bytes - 1;
		memcpy(w->path, o->dlpi_name, n);
		w->path[n] = 0;
		w->start = (const void *)(o->dlpi_addr ? o->dlpi_addr : 1);
		return 1;
	}
	return 0;
}

const void *resolve_module(const void *address, char *path, unsigned long bytes)
{
	struct whose w = { .address = (uintptr_t)address, .path = path, .bytes = bytes };

	path[0] = 0;
	dl_iterate_phdr(look_module, &w);
	return w.start;
}
