/* Shared by the files of the simulated NCCL. */
#ifndef CUDASIM_NCCL_H
#define CUDASIM_NCCL_H

#include "device/settings.h"
#include "nccl/comm.h"
#include "nccl/reduce.h"

enum call {
	ALL_GATHER = 1,
	ALL_REDUCE,
	BROADCAST,
	SPLIT,
	REDUCE_SCATTER,
	ALL_TO_ALL,
	REDUCE,
	GATHER,
	SCATTER
};

#define NCCL(type, name, ...)          \
	EXPORT type name(__VA_ARGS__); \
	EXPORT type name(__VA_ARGS__)

/* Whether data of this size and type really goes from rank to rank: small tensors, and bytes
 * (pickled objects) as far as their copies to the device are kept. */
static inline bool nccl_travels(size_t bytes, int type)
{
	return bytes && bytes <= (type <= 1 ? settings.copy_max : PAYLOAD);
}

static inline size_t nccl_bytes(size_t count, int type, int ranks)
{
	return product(product(count, reduce_size(type)), (uint64_t)ranks);
}
static inline bool nccl_has_rank(const struct comm *comm, int rank)
{
	return comm && rank >= 0 && rank < comm->ranks;
}

/* Enters the communicator; 0 if there is something to exchange, else 1 with the result in *result.
 */
int nccl_enter(struct comm *comm, const char *name, size_t bytes, int *result);
int nccl_leave(struct comm *comm, int result);

#endif
