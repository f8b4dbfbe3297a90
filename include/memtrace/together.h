/* Shared memory of `memtrace simulate --together`: some ranks of a job are simulated and the others
 * emulated. `memtrace simulate`, which is the job's TCPStore server, and the simulated device of
 * each rank map it. */
#ifndef MEMTRACE_TOGETHER_H
#define MEMTRACE_TOGETHER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "memtrace/fnv.h"

enum { TOGETHER_RANKS = 64, TOGETHER_GROUPS = 8192 };
enum { UNIQUE_ID = 128 }; /* bytes: ncclUniqueId */

enum { TOGETHER_TEXT = 384 };

/* One simulated rank, in the order of --ranks. */
struct together_rank {
	_Atomic uint32_t waits; /* threads of the rank that wait in the device for another rank */
	_Atomic uint64_t turns; /* number of times that waiting threads looked again */
	char where[TOGETHER_TEXT]; /* the call of one waiting thread and the rank that it waits for,
				      as text */
};

/* An NCCL communicator. The store knows its unique id, and which of its members are simulated. */
struct together_group {
	uint64_t id;
	uint32_t count;
	int32_t rank[TOGETHER_RANKS]; /* of the members that are simulated, in the communicator's
					 numbering, ascending */
};

struct together {
	struct together_rank rank[TOGETHER_RANKS];
	_Atomic uint32_t groups; /* rows in use; only the store adds rows */
	struct together_group group[TOGETHER_GROUPS];
};

static inline uint64_t together_hash(const void *data, size_t length)
{
	return fnv_add(FNV_START, data, length);
}

#endif
