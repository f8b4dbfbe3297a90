/* NCCL between the ranks of one job on this machine. Payloads up to 64 KiB really travel, and small
 * reductions are computed; larger ones return at once, because only kernels would read them. A
 * collective completes in the call: streams need not wait for it. NCCL's own device buffers are not
 * modelled. */
#define _GNU_SOURCE
#include "comm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
enum { OPERATION_AVG = 4, OPERATION_OWN = 5 };
#define MESSAGES 4096

#define NCCL(type, name, ...)          \
	EXPORT type name(__VA_ARGS__); \
	EXPORT type name(__VA_ARGS__)

/* ---- life */

NCCL(int, ncclGetVersion, int *version)
{
	static const char *const libraries[] = { "libnccl.so.2", NULL };
	int (*real)(int *) = (int (*)(int *))real_symbol(libraries, "ncclGetVersion");
	if (real)
		return real(version);
	*version = 22105;
	return NCCL_OK;
}

NCCL(int, ncclGetUniqueId, struct unique_id *id)
{
	int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? -1 : read(file, id, sizeof *id);
	if (file >= 0)
		close(file);
	return got == (ssize_t)sizeof *id ? NCCL_OK : NCCL_SYSTEM_ERROR;
}

static int join(struct comm **out, int ranks, struct unique_id id, int rank)
{
	*out = NULL;
	if (sim_ready() || device_use_current())
		return NCCL_SYSTEM_ERROR;
	if (ranks < 1 || rank < 0 || rank >= ranks)
		return NCCL_INVALID_ARGUMENT;
	if (ranks > COMM_RANKS) {
		sim_say("ncclCommInitRank: %d ranks; at most %d are simulated", ranks, COMM_RANKS);
		return NCCL_INVALID_USAGE;
	}
	struct comm *comm = calloc(1, sizeof *comm);
	if (!comm)
		return NCCL_SYSTEM_ERROR;
	comm->id = id;
	comm->ranks = ranks;
	comm->rank = rank;
	comm->device = device_current();
	int error = comm_join(comm);
	sim_log("communicator %s: rank %d of %d: %d", comm->name, rank, ranks, error);
	if (error)
		comm_leave(comm);
	else
		*out = comm;
	return error;
}

NCCL(int, ncclCommInitRankConfig, struct comm **comm, int ranks, struct unique_id id, int rank,
     void *config)
{
	(void)config;
	return join(comm, ranks, id, rank);
}
NCCL(int, ncclCommInitRank, struct comm **comm, int ranks, struct unique_id id, int rank)
{
	return join(comm, ranks, id, rank);
}
NCCL(int, ncclCommInitRankScalable, struct comm **comm, int ranks, int rank, int ids,
     struct unique_id *id, void *config)
{
	(void)ids, (void)config;
	return join(comm, ranks, id[0], rank);
}
NCCL(int, ncclCommInitAll, struct comm **comms, int devices, const int *list)
{
	(void)list;
	if (devices == 1)
		return join(comms, 1, (struct unique_id){ { 0 } }, 0);
	return sim_refuse(LIB_nccl, "ncclCommInitAll of several devices in one process");
}
NCCL(int, ncclCommDestroy, struct comm *comm)
{
	if (comm)
		comm_leave(comm);
	return NCCL_OK;
}
NCCL(int, ncclCommAbort, struct comm *comm)
{
	return ncclCommDestroy(comm);
}
NCCL(int, ncclCommFinalize, struct comm *comm)
{
	return comm ? NCCL_OK
		    : NCCL_INVALID_ARGUMENT; /* all that was asked for is done; destroy frees */
}

NCCL(int, ncclCommCount, struct comm *comm, int *out)
{
	return *out = comm->ranks, NCCL_OK;
}
NCCL(int, ncclCommUserRank, struct comm *comm, int *out)
{
	return *out = comm->rank, NCCL_OK;
}
NCCL(int, ncclCommCuDevice, struct comm *comm, int *out)
{
	return *out = comm->device, NCCL_OK;
}
NCCL(int, ncclCommGetAsyncError, struct comm *comm, int *out)
{
	(void)comm;
	*out = NCCL_OK;
	return NCCL_OK;
}
NCCL(const char *, ncclGetErrorString, int error)
{
	switch (error) {
	case NCCL_OK:
		return "no error";
	case NCCL_SYSTEM_ERROR:
		return "unhandled system error (simulated: see the message of cudasim)";
	case NCCL_INVALID_ARGUMENT:
		return "invalid argument";
	case NCCL_INVALID_USAGE:
		return "invalid usage (simulated: see the message of cudasim)";
	case NCCL_REMOTE_ERROR:
		return "remote process exited or there was a network error";
	default:
		return "unknown result code";
	}
}
NCCL(const char *, ncclGetLastError, struct comm *comm)
{
	(void)comm;
	return "";
}

/* ---- buffers */

NCCL(int, ncclMemAlloc, void **pointer, size_t bytes)
{
	uint64_t address = 0;
	int error = device_use_current();
	if (!error)
		error = memory_alloc(bytes ? bytes : 1, device_current(), MEMORY_LINEAR, NULL,
				     &address);
	*pointer = (void *)address;
	return error ? 1 /* ncclUnhandledCudaError */ : NCCL_OK;
}
NCCL(int, ncclMemFree, void *pointer)
{
	return !pointer || !memory_free((uint64_t)pointer) ? NCCL_OK : NCCL_INVALID_ARGUMENT;
}
NCCL(int, ncclCommRegister, struct comm *comm, void *buffer, size_t bytes, void **handle)
{
	(void)comm, (void)buffer, (void)bytes;
	*handle = handle_new();
	return NCCL_OK;
}

/* ---- reductions with a factor of the caller's */

static double factors[256];
static _Atomic unsigned last_factor;

NCCL(int, ncclRedOpCreatePreMulSum, int *operation, void *scalar, int type, int residence,
     struct comm *comm)
{
	(void)residence, (void)comm; /* a device scalar is readable here */
	unsigned slot = last_factor++ % LENGTH(factors);
	factors[slot] = reduce_number(scalar, type);
	*operation = OPERATION_OWN + (int)slot;
	return NCCL_OK;
}

static void finish(void *data, size_t count, int type, int operation, const struct comm *comm)
{
	if (operation == OPERATION_AVG)
		reduce_scale(data, count, type, 1.0 / comm->ranks);
	else if (operation >= OPERATION_OWN)
		reduce_scale(data, count, type,
			     factors[(unsigned)(operation - OPERATION_OWN) % LENGTH(factors)]);
}

/* ---- collectives */

/* Enters the communicator; 0 if there is something to exchange, else 1 with the result in *result.
 */
static int enter(struct comm *comm, const char *name, size_t bytes, int *result)
{
	if (!comm) {
		*result = NCCL_INVALID_ARGUMENT;
		return 1;
	}
	sim_log("%s: %zu bytes, rank %d of %d", name, bytes, comm->rank, comm->ranks);
	*result = NCCL_OK;
	if (bytes > PAYLOAD || !bytes)
		return 1;
	atomic_fetch_add(&comm->busy, 1);
	pthread_mutex_lock(&comm->lock);
	return 0;
}

static int leave(struct comm *comm, int result)
{
	pthread_mutex_unlock(&comm->lock);
	atomic_fetch_sub(&comm->busy, 1);
	return result;
}

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

NCCL(int, ncclAllGather, const void *from, void *to, size_t count, int type, struct comm *comm,
     void *stream)
{
	size_t bytes = count * reduce_size(type);
	int result;
	stream_work(stream);
	if (enter(comm, "ncclAllGather", bytes, &result))
		return result;
	result = exchange(comm, "ncclAllGather", ALL_GATHER, bytes, 0, from, bytes);
	for (int i = 0; !result && i < comm->ranks; i++)
		memmove((char *)to + (size_t)i * bytes, slot_of(comm, i, from), bytes);
	return leave(comm, result);
}

/* Reduces everybody's `count` elements, which begin at `offset` in what was published, into `to`.
 */
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

/* 8-bit floats are left as they are, which a caller that reads them must be told. */
static bool reducible(int type, int operation, const char *name)
{
	return reduce_known(type, operation) || sim_refuse(LIB_nccl, name) < 0;
}

NCCL(int, ncclAllReduce, const void *from, void *to, size_t count, int type, int operation,
     struct comm *comm, void *stream)
{
	size_t bytes = count * reduce_size(type);
	int result;
	stream_work(stream);
	if (enter(comm, "ncclAllReduce", bytes, &result))
		return result;
	if (!reducible(type, operation, "ncclAllReduce of this type"))
		return leave(comm, NCCL_INVALID_USAGE);
	result = exchange(comm, "ncclAllReduce", ALL_REDUCE, bytes, operation, from, bytes);
	if (!result)
		reduce(comm, from, 0, to, count, type, operation);
	return leave(comm, result);
}
NCCL(int, ncclReduce, const void *from, void *to, size_t count, int type, int operation, int root,
     struct comm *comm, void *stream)
{
	size_t bytes = count * reduce_size(type);
	int result;
	stream_work(stream);
	if (enter(comm, "ncclReduce", bytes, &result))
		return result;
	if (!reducible(type, operation, "ncclReduce of this type"))
		return leave(comm, NCCL_INVALID_USAGE);
	result = exchange(comm, "ncclReduce", REDUCE, bytes, root, from, bytes);
	if (!result && comm->rank == root)
		reduce(comm, from, 0, to, count, type, operation);
	return leave(comm, result);
}
NCCL(int, ncclReduceScatter, const void *from, void *to, size_t count, int type, int operation,
     struct comm *comm, void *stream)
{
	size_t part = count * reduce_size(type), bytes = comm ? part * (size_t)comm->ranks : 0;
	int result;
	stream_work(stream);
	if (enter(comm, "ncclReduceScatter", bytes, &result))
		return result;
	if (!reducible(type, operation, "ncclReduceScatter of this type"))
		return leave(comm, NCCL_INVALID_USAGE);
	result = exchange(comm, "ncclReduceScatter", REDUCE_SCATTER, bytes, operation, from, bytes);
	if (!result)
		reduce(comm, from, part * (size_t)comm->rank, to, count, type, operation);
	return leave(comm, result);
}
NCCL(int, ncclBroadcast, const void *from, void *to, size_t count, int type, int root,
     struct comm *comm, void *stream)
{
	size_t bytes = count * reduce_size(type);
	int result;
	stream_work(stream);
	if (enter(comm, "ncclBroadcast", bytes, &result))
		return result;
	result = exchange(comm, "ncclBroadcast", BROADCAST, bytes, root, from,
			  comm->rank == root ? bytes : 0);
	if (!result)
		memmove(to, slot_of(comm, root, from), bytes);
	return leave(comm, result);
}
NCCL(int, ncclBcast, void *data, size_t count, int type, int root, struct comm *comm, void *stream)
{
	return ncclBroadcast(data, data, count, type, root, comm, stream);
}
NCCL(int, ncclAlltoAll, const void *from, void *to, size_t count, int type, struct comm *comm,
     void *stream)
{
	size_t part = count * reduce_size(type), bytes = comm ? part * (size_t)comm->ranks : 0;
	int result;
	stream_work(stream);
	if (enter(comm, "ncclAlltoAll", bytes, &result))
		return result;
	result = exchange(comm, "ncclAlltoAll", ALL_TO_ALL, bytes, 0, from, bytes);
	for (int i = 0; !result && i < comm->ranks; i++)
		memmove((char *)to + (size_t)i * part,
			slot_of(comm, i, from) + (size_t)comm->rank * part, part);
	return leave(comm, result);
}
NCCL(int, ncclGather, const void *from, void *to, size_t count, int type, int root,
     struct comm *comm, void *stream)
{
	size_t bytes = count * reduce_size(type);
	int result;
	stream_work(stream);
	if (enter(comm, "ncclGather", bytes, &result))
		return result;
	result = exchange(comm, "ncclGather", GATHER, bytes, root, from, bytes);
	for (int i = 0; !result && comm->rank == root && i < comm->ranks; i++)
		memmove((char *)to + (size_t)i * bytes, slot_of(comm, i, from), bytes);
	return leave(comm, result);
}
NCCL(int, ncclScatter, const void *from, void *to, size_t count, int type, int root,
     struct comm *comm, void *stream)
{
	size_t part = count * reduce_size(type), bytes = comm ? part * (size_t)comm->ranks : 0;
	int result;
	stream_work(stream);
	if (enter(comm, "ncclScatter", bytes, &result))
		return result;
	result = exchange(comm, "ncclScatter", SCATTER, bytes, root, from,
			  comm->rank == root ? bytes : 0);
	if (!result)
		memmove(to, slot_of(comm, root, from) + part * (size_t)comm->rank, part);
	return leave(comm, result);
}

/* ---- splitting: everybody's colour and key, then a communicator for each colour */

NCCL(int, ncclCommSplit, struct comm *comm, int colour, int key, struct comm **out, void *config)
{
	struct {
		struct unique_id parent;
		uint64_t split;
		int64_t colour;
		uint64_t word;
	} seed = { .colour = colour };
	struct unique_id id;
	int ranks = 0, rank = 0, result = NCCL_OK;
	(void)config;
	*out = NULL;
	if (enter(comm, "ncclCommSplit", 1, &result))
		return result;
	if (comm->shared)
		result = comm_exchange(comm, "ncclCommSplit",
				       (struct announcement){ SPLIT, 0, (uint64_t)(int64_t)colour,
							      (uint64_t)(int64_t)key },
				       NULL, 0);
	for (int i = 0; !result && i < comm->ranks; i++) {
		struct announcement said =
			comm->shared ? comm_said(comm, i)
				     : (struct announcement){ SPLIT, 0, (uint64_t)(int64_t)colour,
							      (uint64_t)(int64_t)key };
		int64_t other = (int64_t)said.second;
		if ((int64_t)said.first != colour)
			continue;
		ranks++;
		rank += other < key || (other == key && i < comm->rank);
	}
	seed.parent = comm->id;
	seed.split = comm->splits++;
	leave(comm, result);
	if (result || colour < 0)
		return result;
	for (seed.word = 0; seed.word < sizeof id / 8; seed.word++) {
		uint64_t hash = comm_hash(&seed, sizeof seed);
		memcpy(id.bytes + 8 * seed.word, &hash, 8);
	}
	return join(out, ranks, id, rank);
}

/* ---- sends and receives: those of a group move together when it ends */

static _Thread_local struct message *queue;
static _Thread_local size_t queued;
static _Thread_local int depth;

static int run_messages(struct message *messages, size_t count)
{
	for (size_t i = 0; i < count; i++)
		atomic_fetch_add(&messages[i].comm->busy, 1);
	int result = comm_messages(messages, count);
	for (size_t i = 0; i < count; i++)
		atomic_fetch_sub(&messages[i].comm->busy, 1);
	return result;
}

/* A rank's message to itself never leaves the process: found in the same group. */
static int pair_own(struct message *messages, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		struct message *m = &messages[i];
		bool own = m->peer == m->comm->rank;
		for (size_t j = 0; own && m->receive && j < count; j++) {
			struct message *s = &messages[j];
			if (s->receive || s->done || s->comm != m->comm || s->peer != m->peer)
				continue;
			memmove(m->data, s->data, m->bytes < s->bytes ? m->bytes : s->bytes);
			s->done = true;
			break;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (messages[i].peer != messages[i].comm->rank)
			messages[kept++] = messages[i];
	return (int)kept;
}

static int post(struct comm *comm, void *data, size_t count, int type, int peer, bool receive)
{
	size_t bytes = count * reduce_size(type);
	if (!comm || peer < 0 || peer >= comm->ranks)
		return NCCL_INVALID_ARGUMENT;
	sim_log("%s: %zu bytes, rank %d, peer %d", receive ? "ncclRecv" : "ncclSend", bytes,
		comm->rank, peer);
	if (bytes > PAYLOAD || !bytes)
		return NCCL_OK;
	struct message message = {
		.comm = comm, .data = data, .bytes = bytes, .peer = peer, .receive = receive
	};
	if (!depth)
		return peer == comm->rank ? NCCL_INVALID_USAGE : run_messages(&message, 1);
	if (!queue)
		queue = malloc(MESSAGES * sizeof *queue);
	if (!queue || queued == MESSAGES) {
		sim_say("ncclGroupEnd: more than %d sends and receives in one group are not simulated",
			MESSAGES);
		return NCCL_INVALID_USAGE;
	}
	queue[queued++] = message;
	return NCCL_OK;
}

NCCL(int, ncclSend, const void *data, size_t count, int type, int peer, struct comm *comm,
     void *stream)
{
	stream_work(stream);
	return post(comm, (void *)data, count, type, peer, false);
}
NCCL(int, ncclRecv, void *data, size_t count, int type, int peer, struct comm *comm, void *stream)
{
	stream_work(stream);
	return post(comm, data, count, type, peer, true);
}
NCCL(int, ncclGroupStart, void)
{
	depth++;
	return NCCL_OK;
}
NCCL(int, ncclGroupEnd, void)
{
	if (!depth)
		return NCCL_INVALID_USAGE;
	if (--depth || !queued)
		return NCCL_OK;
	size_t count = (size_t)pair_own(queue, queued);
	queued = 0;
	return run_messages(queue, count);
}
