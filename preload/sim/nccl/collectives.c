/* NCCL's collectives between the ranks of one job on this machine. Payloads up to 64 KiB really
 * travel, and small reductions are computed; larger ones return at once, because only kernels
 * would read them. The data is there when the call returns; stream.c decides when the program
 * may see it. */
#include "nccl/collectives.h"

#include "device/common.h"
#include "time/speed.h"
#include "device/status.h"
#include "device/stream.h"
#include "nccl/comm.h"
#include "nccl/group.h"
#include "nccl/nccl.h"
#include "nccl/nccl_memory.h"
#include "nccl/reduce.h"

#include <stdlib.h>
#include <string.h>

enum { OPERATION_AVG = 4, OPERATION_OWN = 5 };

/* ---- time: `bytes` pass from rank to rank round the ring, `rounds` times */

static size_t ranks_of(const struct comm *comm)
{
	return comm && comm->ranks > 0 ? (size_t)comm->ranks : 1;
}

static uint64_t ring_time(const struct comm *comm, size_t bytes, int rounds)
{
	int steps = rounds * (int)(ranks_of(comm) - 1);
	return speed_peers(product(bytes, (uint64_t)steps), comm ? comm->ranks : 1, steps);
}

/* ---- reductions with a factor from the caller */

static char factors[256][8]; /* each of the type of its operation */
static _Atomic unsigned last_factor;

NCCL(int, ncclRedOpCreatePreMulSum, int *operation, void *scalar, int type, int residence,
     struct comm *comm)
{
	(void)residence, (void)comm; /* a scalar of the device can be read here */
	unsigned slot = last_factor++ % LENGTH(factors);
	memcpy(factors[slot], scalar, reduce_size(type));
	*operation = OPERATION_OWN + (int)slot;
	return NCCL_OK;
}

static void finish(void *data, size_t count, int type, int operation, const struct comm *comm)
{
	if (operation == OPERATION_AVG)
		reduce_divide(data, count, type, comm->ranks);
	else if (operation >= OPERATION_OWN)
		reduce_scale(data, count, type,
			     factors[(unsigned)(operation - OPERATION_OWN) % LENGTH(factors)]);
}

/* ---- collectives */

/* More data of a gather would only cost host memory; pickled objects (bytes) are read. */
#define MIRROR_MAX MIB(1)

static const char *slot_of(struct comm *comm, int rank, const void *own)
{
	return comm->shared ? comm_slot(comm, rank) : own;
}

static int exchange(struct comm *comm, const char *name, enum call call, size_t bytes, int detail,
		    const void *data, size_t published)
{
	struct announcement what = { call, bytes, (uint64_t)(int64_t)detail, 0 };
	return comm->shared ? comm_exchange(comm, name, what, data, published) : NCCL_OK;
}

static size_t piece(size_t bytes, size_t at)
{
	return bytes - at < PAYLOAD ? bytes - at : PAYLOAD;
}

/* `apart`: the distance from one rank's data to the next in `to`; `whole`: the data of all ranks
 * matters. */
static int gather_all(const char *from, char *to, size_t bytes, size_t apart, bool whole,
		      struct comm *comm)
{
	int result;
	if (nccl_enter(comm, "ncclAllGather", bytes, &result))
		return result;
	result = exchange(comm, "ncclAllGather", ALL_GATHER, bytes, 0, from, bytes);
	for (int i = 0; !result && i < comm->ranks; i++)
		if (whole || !comm_absent(comm, i) || apart * (size_t)comm->ranks <= MIRROR_MAX)
			memmove(to + (size_t)i * apart, slot_of(comm, i, from), bytes);
	return nccl_leave(comm, result);
}

NCCL(int, ncclAllGather, const void *from, void *to, size_t count, int type, struct comm *comm,
     void *stream)
{
	if (!comm)
		return NCCL_INVALID_ARGUMENT;
	size_t bytes = nccl_bytes(count, type, 1);
	int result = nccl_memory_collective(comm, "ncclAllGather", bytes * (size_t)comm->ranks);
	stream_work(stream, ring_time(comm, bytes, 1));
	for (size_t at = 0; !result && nccl_travels(bytes, type) && at < bytes; at += PAYLOAD)
		result = gather_all((const char *)from + at, (char *)to + at, piece(bytes, at),
				    bytes, !comm_has_emulated(comm) || type <= 1, comm);
	return result;
}

/* Reduces the `count` elements of all ranks, at `offset` in the published data, into `to`. */
static void reduce(struct comm *comm, const void *own, size_t offset, void *to, size_t count,
		   int type, int operation)
{
	char sum[PAYLOAD];
	size_t bytes = count * reduce_size(type);
	memcpy(sum, slot_of(comm, 0, own) + offset, bytes);
	for (int i = 1; i < comm->ranks; i++)
		reduce_into(sum, slot_of(comm, i, own) + offset, count, type, operation);
	finish(sum, count, type, operation, comm);
	memcpy(to, sum, bytes);
}

/* 8-bit floats are left as they are, and a caller that reads them is warned. */
static bool reducible(int type, int operation, const char *name)
{
	if (reduce_known(type, operation))
		return true;
	sim_refuse(LIB_nccl, name);
	return false;
}

NCCL(int, ncclAllReduce, const void *from, void *to, size_t count, int type, int operation,
     struct comm *comm, void *stream)
{
	size_t bytes = nccl_bytes(count, type, 1);
	int result = nccl_memory_collective(comm, "ncclAllReduce", bytes);
	stream_work(stream, ring_time(comm, bytes / ranks_of(comm), 2));
	if (result || nccl_enter(comm, "ncclAllReduce", bytes, &result))
		return result;
	if (!reducible(type, operation, "ncclAllReduce of this type"))
		return nccl_leave(comm, NCCL_INVALID_USAGE);
	result = exchange(comm, "ncclAllReduce", ALL_REDUCE, bytes, operation, from, bytes);
	if (!result)
		reduce(comm, from, 0, to, count, type, operation);
	return nccl_leave(comm, result);
}
NCCL(int, ncclReduce, const void *from, void *to, size_t count, int type, int operation, int root,
     struct comm *comm, void *stream)
{
	size_t bytes = nccl_bytes(count, type, 1);
	if (!nccl_has_rank(comm, root))
		return NCCL_INVALID_ARGUMENT;
	int result = nccl_memory_collective(comm, "ncclReduce", 0);
	stream_work(stream, ring_time(comm, bytes / ranks_of(comm), 2));
	if (result || nccl_enter(comm, "ncclReduce", bytes, &result))
		return result;
	if (!reducible(type, operation, "ncclReduce of this type"))
		return nccl_leave(comm, NCCL_INVALID_USAGE);
	result = exchange(comm, "ncclReduce", REDUCE, bytes, root, from, bytes);
	if (!result && comm->rank == root)
		reduce(comm, from, 0, to, count, type, operation);
	return nccl_leave(comm, result);
}
NCCL(int, ncclReduceScatter, const void *from, void *to, size_t count, int type, int operation,
     struct comm *comm, void *stream)
{
	size_t part = nccl_bytes(count, type, 1);
	if (!comm)
		return NCCL_INVALID_ARGUMENT;
	size_t bytes = nccl_bytes(count, type, comm->ranks);
	int result = nccl_memory_collective(comm, "ncclReduceScatter", bytes);
	stream_work(stream, ring_time(comm, part, 1));
	if (result || nccl_enter(comm, "ncclReduceScatter", bytes, &result))
		return result;
	if (!reducible(type, operation, "ncclReduceScatter of this type"))
		return nccl_leave(comm, NCCL_INVALID_USAGE);
	result = exchange(comm, "ncclReduceScatter", REDUCE_SCATTER, bytes, operation, from, bytes);
	if (!result)
		reduce(comm, from, part * (size_t)comm->rank, to, count, type, operation);
	return nccl_leave(comm, result);
}
/* Broadcasts of one group with an emulated root that leave the buffer as it is: PyTorch gathers
 * into a list by one broadcast for each rank. They get the data that the root's deputy
 * broadcasts in that group. */
struct grouped {
	struct comm *comm;
	char *data;
	size_t at, bytes;
	int root;
};
static _Thread_local struct grouped *grouped;
static _Thread_local size_t grouped_count, grouped_capacity;

static void remember(struct grouped g)
{
	struct grouped *roomy =
		room_for_one(grouped, grouped_count, &grouped_capacity, sizeof *grouped);
	if (!roomy)
		return;
	grouped = roomy;
	grouped[grouped_count++] = g;
}

void collectives_group_end(void)
{
	for (size_t i = 0; i < grouped_count; i++) {
		const struct grouped *g = &grouped[i], *d = grouped, *end = grouped + grouped_count;
		int deputy = comm_deputy(g->comm, g->root);
		while (d < end && (d->root != deputy || d->comm != g->comm || d->at != g->at ||
				   d->bytes != g->bytes))
			d++;
		if (comm_absent(g->comm, g->root) && d < end)
			memmove(g->data, d->data, g->bytes);
	}
	grouped_count = 0;
}

static int broadcast(const char *from, char *to, size_t at, size_t bytes, int root,
		     struct comm *comm)
{
	int result, deputy;
	if (nccl_enter(comm, "ncclBroadcast", bytes, &result))
		return result;
	to = to ? to + at : NULL;
	from = from ? from + at : to;
	deputy = comm_deputy(comm, root);
	result = exchange(comm, "ncclBroadcast", BROADCAST, bytes, root, from,
			  comm->rank == deputy ? bytes : 0);
	if (!result && to && (comm->shared || from != to))
		memmove(to, slot_of(comm, root, from), bytes);
	if (comm_has_emulated(comm) && nccl_in_group() && (!comm_absent(comm, root) || from == to))
		remember((struct grouped){ comm, to, at, bytes, root });
	return nccl_leave(comm, result);
}

NCCL(int, ncclBroadcast, const void *from, void *to, size_t count, int type, int root,
     struct comm *comm, void *stream)
{
	size_t bytes = nccl_bytes(count, type, 1);
	if (!nccl_has_rank(comm, root))
		return NCCL_INVALID_ARGUMENT;
	int result = nccl_memory_collective(comm, "ncclBroadcast", 0);
	stream_work(stream, ring_time(comm, bytes / ranks_of(comm), 2));
	for (size_t at = 0; !result && nccl_travels(bytes, type) && at < bytes; at += PAYLOAD)
		result = broadcast(from, to, at, piece(bytes, at), root, comm);
	return result;
}
NCCL(int, ncclBcast, void *data, size_t count, int type, int root, struct comm *comm, void *stream)
{
	return ncclBroadcast(data, data, count, type, root, comm, stream);
}
NCCL(int, ncclAlltoAll, const void *from, void *to, size_t count, int type, struct comm *comm,
     void *stream)
{
	size_t part = nccl_bytes(count, type, 1);
	if (!comm)
		return NCCL_INVALID_ARGUMENT;
	size_t bytes = nccl_bytes(count, type, comm->ranks);
	int result = nccl_memory_all_to_all(comm, "ncclAlltoAll", true, true);
	stream_work(stream, ring_time(comm, part, 1));
	if (result || nccl_enter(comm, "ncclAlltoAll", bytes, &result))
		return result;
	result = exchange(comm, "ncclAlltoAll", ALL_TO_ALL, bytes, 0, from, bytes);
	for (int i = 0; !result && i < comm->ranks; i++) {
		bool absent = comm_absent(comm, i);
		memmove((char *)to + (size_t)i * part,
			(absent ? (const char *)from : slot_of(comm, i, from)) +
				(size_t)(absent ? i : comm->rank) * part,
			part);
	}
	return nccl_leave(comm, result);
}
NCCL(int, ncclGather, const void *from, void *to, size_t count, int type, int root,
     struct comm *comm, void *stream)
{
	size_t bytes = nccl_bytes(count, type, 1);
	if (!nccl_has_rank(comm, root))
		return NCCL_INVALID_ARGUMENT;
	int result = nccl_memory_all_to_all(comm, "ncclGather", true, comm->rank == root);
	stream_work(stream, ring_time(comm, bytes, 1));
	if (result || nccl_enter(comm, "ncclGather", bytes, &result))
		return result;
	result = exchange(comm, "ncclGather", GATHER, bytes, root, from, bytes);
	for (int i = 0; !result && comm->rank == root && i < comm->ranks; i++)
		memmove((char *)to + (size_t)i * bytes, slot_of(comm, i, from), bytes);
	return nccl_leave(comm, result);
}
NCCL(int, ncclScatter, const void *from, void *to, size_t count, int type, int root,
     struct comm *comm, void *stream)
{
	if (!nccl_has_rank(comm, root))
		return NCCL_INVALID_ARGUMENT;
	size_t part = nccl_bytes(count, type, 1), bytes = nccl_bytes(count, type, comm->ranks);
	int result = nccl_memory_all_to_all(comm, "ncclScatter", comm->rank == root, true);
	stream_work(stream, ring_time(comm, part, 1));
	if (result || nccl_enter(comm, "ncclScatter", bytes, &result))
		return result;
	result = exchange(comm, "ncclScatter", SCATTER, bytes, root, from,
			  comm->rank == root ? bytes : 0);
	if (!result && !comm_absent(comm, root))
		memmove(to, slot_of(comm, root, from) + part * (size_t)comm->rank, part);
	return nccl_leave(comm, result);
}
