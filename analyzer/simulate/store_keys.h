/* The keys of the emulated store: see store.h. */
#ifndef MEMTRACE_STORE_KEYS_H
#define MEMTRACE_STORE_KEYS_H

#include "util/buf.h"
#include "simulate/store.h"
#include "util/hash.h"

struct store_entry {
	char *key; /* owned */
	struct buf value;
	int is_emulated; /* set by memtrace for a rank that does not run */
	UT_hash_handle hh;
};

/* NULL: the key is not set. */
struct store_entry *store_find(const struct store *s, const char *key);
/* As store_find(), but adds a missing key with an empty value. */
struct store_entry *store_make(struct store *s, const char *key);
struct store_entry *store_set(struct store *s, const char *key, const void *value, size_t length);
/* Adds to a number, which is kept as text; returns the sum. The last ranks of a barrier are
 * emulated. */
int64_t store_add(struct store *s, const char *key, int64_t amount);
/* Sets a missing key to the value that an absent rank would have set. */
struct store_entry *store_emulate(struct store *s, const char *key);
/* Returns how many keys were removed: 0 or 1. */
int64_t store_drop(struct store *s, const char *key);
void store_drop_all(struct store *s);
size_t store_count(const struct store *s);

#endif
