#define _GNU_SOURCE
#include "symbols/elf_symbols.h"

#include <stddef.h>

int symbols_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
		__asm__ volatile(""); /* prevents the compiler from making it a call of strcmp() */
	}
	return *a == *b;
}

const char *symbols_file(const char *path)
{
	const char *file = path;

	for (; *path; path++)
		if (*path == '/')
			file = path + 1;
	return file;
}

uint32_t symbols_hash(const char *s)
{
	uint32_t h = 5381;

	for (; *s; s++)
		h = h * 33 + (unsigned char)*s;
	return h;
}

/* glibc relocates the pointers of the dynamic section in place, other loaders and the vDSO do not.
 */
static const void *pointer(ElfW(Addr) base, ElfW(Addr) p)
{
	return (const void *)(p < base ? base + p : p);
}

int symbols_read(ElfW(Addr) base, const ElfW(Dyn) * d, struct symbols *s)
{
	const ElfW(Dyn) *soname = NULL;

	*s = (struct symbols){ 0 };
	for (; d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			s->symbol = pointer(base, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			s->names = pointer(base, d->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			s->hash = pointer(base, d->d_un.d_ptr);
			break;
		case DT_HASH:
			s->old_hash = pointer(base, d->d_un.d_ptr);
			break;
		case DT_VERSYM:
			s->version = pointer(base, d->d_un.d_ptr);
			break;
		case DT_SONAME:
			soname = d;
			break;
		default:
			break;
		}
	if (soname && s->names)
		s->soname = s->names + soname->d_un.d_val;
	return s->symbol && s->names ? 0 : -1;
}

static const ElfW(Sym) * match(const struct symbols *s, uint32_t i, const char *name)
{
	const ElfW(Sym) *y = &s->symbol[i];
	unsigned type = ELF64_ST_TYPE(y->st_info);

	if (y->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT) ||
	    !symbols_same(s->names + y->st_name, name))
		return NULL;
	return y;
}

static const ElfW(Sym) * find_gnu(const struct symbols *s, const char *name, uint32_t hash)
{
	uint32_t buckets = s->hash[0], first = s->hash[1], words = s->hash[2], shift = s->hash[3];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)(s->hash + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
	const unsigned bits = 8 * sizeof(ElfW(Addr));
	ElfW(Addr) word = bloom[hash / bits % words];
	const ElfW(Sym) * y;

	if (!(word >> (hash % bits) & 1) || !(word >> ((hash >> shift) % bits) & 1) || !buckets)
		return NULL;
	for (uint32_t i = bucket[hash % buckets]; i >= first && i; i++) {
		uint32_t h = chain[i - first];
		if ((h | 1) == (hash | 1) && (y = match(s, i, name)))
			return y;
		if (h & 1)
			break;
	}
	return NULL;
}

const ElfW(Sym) * symbols_find(const struct symbols *s, const char *name, uint32_t hash)
{
	const ElfW(Sym) *y = NULL;

	if (s->hash)
		return find_gnu(s, name, hash);
	for (uint32_t i = 0; s->old_hash && i < s->old_hash[1] && !y; i++)
		y = match(s, i, name);
	return y;
}

int symbols_is_versioned(const struct symbols *s, const ElfW(Sym) * y)
{
	return s->version && (s->version[y - s->symbol] & 0x7fff) > VER_NDX_GLOBAL;
}
