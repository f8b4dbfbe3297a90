#define _GNU_SOURCE
#include "symbols/resolve.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "symbols/elf_symbols.h"

struct query {
	const char *symbol;
	uint32_t hash;
	enum { BEHIND_US, BEFORE_US, NOT_US, BESIDE } where;
	const void *beside;
	unsigned passed;
	int passed_us;
	void *found;
};

/* The start and the end of this object, from the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

int resolve_is_ours(const void *address)
{
	return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

int resolve_holds(const struct dl_phdr_info *o, const void *address)
{
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		if (p->p_type == PT_LOAD &&
		    (uintptr_t)address - (o->dlpi_addr + p->p_vaddr) < p->p_memsz)
			return 1;
	}
	return 0;
}

static int is_asked(struct query *q, const struct dl_phdr_info *o)
{
	if (resolve_holds(o, __ehdr_start)) {
		q->passed_us = 1;
		return 0;
	}
	switch (q->where) {
	case BEHIND_US:
		return q->passed_us;
	case BEFORE_US:
		return !q->passed_us && q->passed > 1;
	case BESIDE:
		return resolve_holds(o, q->beside);
	default:
		return 1;
	}
}

static int search_object(struct dl_phdr_info *o, size_t size, void *data)
{
	struct query *q = data;
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Sym) * y;
	struct symbols s;

	(void)size;
	q->passed++;
	if (!is_asked(q, o))
		return 0;
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	if (symbols_read(o->dlpi_addr, dynamic, &s) != 0)
		return 0;
	y = symbols_find(&s, q->symbol, q->hash);
	if (!y)
		return 0;
	q->found = (void *)(o->dlpi_addr + y->st_value);
	return 1;
}

static void *find(const char *symbol, int where, const void *beside)
{
	struct query q = {
		.symbol = symbol, .hash = symbols_hash(symbol), .where = where, .beside = beside
	};

	dl_iterate_phdr(search_object, &q);
	return q.found;
}

void *resolve(const char *symbol)
{
	return find(symbol, BEHIND_US, NULL);
}

void *resolve_beside(const void *beside, const char *symbol)
{
	void *f = beside ? find(symbol, BESIDE, beside) : NULL;

	return f ? f : resolve(symbol);
}

void *resolve_before_us(const char *symbol)
{
	return find(symbol, BEFORE_US, NULL);
}

void *resolve_anywhere(const char *symbol)
{
	return find(symbol, NOT_US, NULL);
}

/* The object in which an address lies. It waits for a loader that is at work. */
static int object_of(const void *address, Dl_info *object)
{
	__typeof__(dladdr) *ask;

	*(void **)&ask = resolve_in_libc("dladdr");
	return ask && ask(address, object) && object->dli_fname;
}

static int is_same_object(const Dl_info *object, const void *address)
{
	Dl_info other;

	return object_of(address, &other) && other.dli_fbase == object->dli_fbase;
}

void *resolve_hold(const void *function)
{
	__typeof__(dlopen) *open;
	Dl_info object;
	void *held;

	*(void **)&open = resolve_in_libc("dlopen");
	if (!function || !open || !object_of(function, &object))
		return NULL;
	held = open(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	/* A program is not found by its name, and stays. */
	if (!held && is_same_object(&object, _r_debug.r_map->l_ld))
		held = open(NULL, RTLD_LAZY | RTLD_NOLOAD);
	/* It may have been unloaded in between, and another one loaded. */
	if (held && !is_same_object(&object, function)) {
		resolve_release(held);
		return NULL;
	}
	return held;
}

void resolve_release(void *held)
{
	__typeof__(dlclose) *close;

	*(void **)&close = resolve_in_libc("dlclose");
	if (held && close)
		close(held);
}

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
	const char *file = symbols_file(path);

	return begins(file, "libc.") || begins(file, "libdl.");
}

/*
 * Reads the loader's own list, not dl_iterate_phdr(), which the host may also define. dlsym()
 * itself is found in this way, perhaps before anything else is ready. The C library and the
 * preloads are near the front of the list and are never unloaded.
 */
static void *find_early(const char *symbol, int in_libc)
{
	uint32_t hash = symbols_hash(symbol);
	int passed_us = 0;

	for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
		const ElfW(Sym) *y = NULL;
		struct symbols s;

		if (is_libc(m->l_name) != in_libc) {
			if (!in_libc)
				return NULL;
			continue;
		}
		if ((in_libc || passed_us) && symbols_read(m->l_addr, m->l_ld, &s) == 0)
			y = symbols_find(&s, symbol, hash);
		if (y)
			return (void *)(m->l_addr + y->st_value);
		passed_us |= resolve_is_ours(m->l_ld);
	}
	return NULL;
}

void *resolve_in_libc(const char *symbol)
{
	return find_early(symbol, 1);
}

void *resolve_in_preload(const char *symbol)
{
	return find_early(symbol, 0);
}

struct whose {
	const void *address;
	char *path;
	size_t bytes;
	int file; /* 1: only the part of the path after the last slash is needed */
	const void *start;
};

static int read_module_path(struct dl_phdr_info *o, size_t size, void *data)
{
	struct whose *w = data;
	const char *name;
	size_t n;

	(void)size;
	if (!resolve_holds(o, w->address))
		return 0;
	name = w->file ? symbols_file(o->dlpi_name) : o->dlpi_name;
	n = strlen(name);
	if (n >= w->bytes)
		n = w->bytes - 1;
	memcpy(w->path, name, n);
	w->path[n] = 0;
	w->start = (const void *)(o->dlpi_addr ? o->dlpi_addr : 1);
	return 1;
}

static const void *find_module(struct whose w)
{
	w.path[0] = 0;
	dl_iterate_phdr(read_module_path, &w);
	return w.start;
}

const void *resolve_module(const void *address, char *path, unsigned long bytes)
{
	return find_module((struct whose){ .address = address, .path = path, .bytes = bytes });
}

const void *resolve_module_file(const void *address, char *file, unsigned long bytes)
{
	return find_module(
		(struct whose){ .address = address, .path = file, .bytes = bytes, .file = 1 });
}

struct around {
	const void *address;
	struct resolve_range found;
};

static int read_range(struct dl_phdr_info *o, size_t size, void *data)
{
	struct around *a = data;
	struct resolve_range *f = &a->found;

	(void)size;
	if (!resolve_holds(o, a->address))
		return 0;
	f->low = UINTPTR_MAX;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		uintptr_t from = o->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		f->low = from < f->low ? from : f->low;
		f->high = from + p->p_memsz > f->high ? from + p->p_memsz : f->high;
	}
	return 1;
}

struct resolve_range resolve_range(const void *address)
{
	struct around a = { .address = address };

	dl_iterate_phdr(read_range, &a);
	return a.found;
}

static int read_first(struct dl_phdr_info *o, size_t size, void *data)
{
	struct dl_phdr_info *found = data;

	(void)size;
	*found = *o;
	return 1;
}

unsigned long long resolve_loaded(void)
{
	struct dl_phdr_info found = { 0 };

	dl_iterate_phdr(read_first, &found);
	return found.dlpi_adds;
}

unsigned long long resolve_unloaded(void)
{
	struct dl_phdr_info found = { 0 };

	dl_iterate_phdr(read_first, &found);
	return found.dlpi_subs;
}
