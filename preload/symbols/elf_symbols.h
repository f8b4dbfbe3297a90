/*
 * One loaded object's symbols, read from its tables. Own loops in place of the C library's
 * functions: a sanitizer that the host carries may define those, and be just now looking for the
 * real ones.
 */
#ifndef PRELOAD_SYMBOLS_H
#define PRELOAD_SYMBOLS_H

#include <elf.h>
#include <link.h>
#include <stdint.h>

struct symbols {
	const ElfW(Sym) * symbol;
	const char *names;
	const char *soname;           /* or NULL */
	const uint32_t *hash;         /* DT_GNU_HASH, or NULL */
	const uint32_t *old_hash;     /* DT_HASH, or NULL */
	const ElfW(Versym) * version; /* of each symbol, or NULL */
};

uint32_t symbols_hash(const char *name);

/* Of the object at BASE whose dynamic section is D. 0, or -1 where it has none. */
int symbols_read(ElfW(Addr) base, const ElfW(Dyn) * d, struct symbols *s);

/* The definition of NAME, whose symbols_hash() is HASH; NULL: none. */
const ElfW(Sym) * symbols_find(const struct symbols *s, const char *name, uint32_t hash);

/* Does it belong to a version (cudaMalloc@@libcudart.so.13)? Then the loader binds only those that
 * want it. */
int symbols_is_versioned(const struct symbols *s, const ElfW(Sym) * y);

int symbols_same(const char *a, const char *b);

/* What follows the last slash. */
const char *symbols_file(const char *path);

#endif
