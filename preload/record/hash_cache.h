/*
 * A cache from 64-bit hashes to 32-bit values that any thread reads and writes without a lock. The
 * first word of a slot combines hash and value: a slot that is being written, or that two threads
 * wrote at once, matches no hash.
 */
#ifndef PRELOAD_HASH_CACHE_H
#define PRELOAD_HASH_CACHE_H

#include <stdint.h>

struct hash_cache_slot {
	uint64_t check; /* hash ^ value; both words 0: empty */
	uint64_t value; /* with bit 32 set, so that it is never 0 */
};

#define HASH_CACHE_SET (1ull << 32)

static inline int hash_cache_get(const struct hash_cache_slot *k, uint64_t hash, uint32_t *value)
{
	uint64_t v = __atomic_load_n(&k->value, __ATOMIC_RELAXED);

	if ((__atomic_load_n(&k->check, __ATOMIC_RELAXED) ^ v) != hash || !v)
		return 0;
	*value = (uint32_t)v;
	return 1;
}

static inline void hash_cache_set(struct hash_cache_slot *k, uint64_t hash, uint32_t value)
{
	__atomic_store_n(&k->value, value | HASH_CACHE_SET, __ATOMIC_RELAXED);
	__atomic_store_n(&k->check, hash ^ (value | HASH_CACHE_SET), __ATOMIC_RELAXED);
}

#endif
