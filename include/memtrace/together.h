/* Some ranks of a job that are simulated together while its others are played: what `memtrace
 * simulate`, which plays the store, and the simulated device of each rank tell each other, in
 * memory that all of them map. */
#ifndef MEMTRACE_TOGETHER_H
#define MEMTRACE_TOGETHER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { TOGETHER_RANKS = 64, TOGETHER_GROUPS = 8192 };
enum { UNIQUE_ID = 128 }; /* bytes: ncclUniqueId */

enum { TOGETHER_TEXT = 384 };

/* A process's row, in the order of --ranks. */
struct together_rank {
	_Atomic uint32_t waits; /* threads of it that wait in the device for another of these */
	_Atomic uint64_t turns; /* how often they have looked again */
	char where[TOGETHER_TEXT]; /* the call of one that waits, and for whom; for people */
};

/* An NCCL communicator: the store sees its unique id, and knows of its members which ones run. */
struct together_group {
	uint64_t id;
	uint32_t count;
	int32_t rank[TOGETHER_RANKS]; /* as the communicator numbers them, ascending */
};

struct together {
	struct together_rank rank[TOGETHER_RANKS];
	_Atomic uint32_t groups; /* rows that are written; only the store adds some */
	struct together_group group[TOGETHER_GROUPS];
};

static inline uint64_t together_hash(const void *data, size_t length)
{
	const unsigned char *p = data;
	uint64_t hash = 0xcbf29ce484222325ull;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ p[i]) * 0x100000001b3ull;
	return hash;
}

#endif
