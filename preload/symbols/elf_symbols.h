/*
 * The symbols of one loaded object, read from its tables. Loops replace functions of the C library:
 * a sanitizer in the host may define those, and may be searching for the real ones at this moment.
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
	const ElfW(Versym) * version; /* version of each symbol, or NULL */
};

uint32_t symbols_hash(const char *name);

/* Reads the tables of the object at BASE with the dynamic section D. Returns 0, or -1 without
 * symbols. */
int symbols_read(ElfW(Addr) base, const ElfW(Dyn) * d, struct symbols *s);

/* The definition of NAME; HASH is symbols_hash(NAME). NULL: none. */
const ElfW(Sym) * symbols_find(const struct symbols *s, const char *name, uint32_t hash);

/* Does the symbol have a version (cudaMalloc@@libcudart.so.13)? Then the loader binds it only to
 * callers that require this version. */
int symbols_is_versioned(const struct symbols *s, const ElfW(Sym) * y);

int symbols_same(const char *a, const char *b);

/* The part of PATH after the last slash. */
const char *symbols_file(const char *path);

#endif
