/* The keys of a played store: see store.h. */
#ifndef MEMTRACE_SIM_STORE_KEYS_H
#define MEMTRACE_SIM_STORE_KEYS_H

#include "util/buf.h"
#include "simulate/store.h"

struct store_entry {
	struct store_entry *next;
	char *key;
	struct buf value;
	int is_played; /* by us, for a rank that does not run */
};

void store_open_keys(struct store *s);
void store_close_keys(struct store *s);
struct store_entry *store_find(struct store *s, const char *key);
struct store_entry *store_make(struct store *s, const char *key);
struct store_entry *store_set(struct store *s, const char *key, const void *value, size_t length);
int64_t store_drop(struct store *s, const char *key);
int64_t store_add(struct store *s, const char *key, int64_t amount);
/* A key that nobody has set and somebody needs: what an absent rank would have said. */
struct store_entry *store_play(struct store *s, const char *key);

#endif
