/* NCCL: versions, communicators and their splits, buffers. The calls that move data are in
 * collectives.c and messages.c; the rendezvous is comm.c, and peers.c emulates the absent ranks. */
#define _GNU_SOURCE
#include "nccl/nccl.h"

#include "device/clock.h"
#include "device/device.h"
#include "device/handle.h"
#include "device/memory.h"
#include "device/settings.h"
#include "device/status.h"
#include "nccl/comm.h"
#include "nccl/nccl_memory.h"
#include "nccl/peers.h"
#include "nccl/unique_id.h"

#include <stdlib.h>
#include <string.h>

/* ---- life */

NCCL(int, ncclGetUniqueId, struct unique_id *id)
{
	return unique_id_make(id);
}

/* The ranks of a communicator that run, if known before. */
struct members {
	int count, rank[COMM_RANKS];
};

static int join_members(struct comm **out, int ranks, struct unique_id id, int rank,
			const struct members *members)
{
	*out = NULL;
	if (sim_ready() || device_use_current())
		return NCCL_SYSTEM_ERROR;
	if (ranks < 1 || rank < 0 || rank >= ranks) {
		sim_say("ncclCommInitRank: rank %d of %d: expected a rank from 0 to %d", rank,
			ranks, ranks - 1);
		return NCCL_INVALID_ARGUMENT;
	}
	struct comm *comm = calloc(1, sizeof *comm);
	if (!comm)
		return NCCL_SYSTEM_ERROR;
	comm->id = id;
	unique_id_renew(&comm->id);
	comm->ranks = ranks;
	comm->rank = rank;
	comm->device = device_current();
	comm->members = members->count;
	memcpy(comm->member, members->rank, sizeof comm->member);
	int error = nccl_memory_created(comm);
	if (error) {
		free(comm->connected);
		free(comm);
		return error;
	}
	error = comm_join(comm);
	sim_log("communicator %s: rank %d of %d: %d", comm->name, rank, ranks, error);
	if (error)
		comm_leave(comm);
	else
		*out = comm;
	return error;
}

static int join(struct comm **out, int ranks, struct unique_id id, int rank)
{
	return join_members(out, ranks, id, rank, &(struct members){ 0 });
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
/* The memory of a communicator on its device, none of which can be suspended here. */
NCCL(int, ncclCommMemStats, struct comm *comm, int stat, uint64_t *out)
{
	enum { PERSISTENT = 2, TOTAL };
	if (!comm || !out || stat < 0 || stat > TOTAL)
		return NCCL_INVALID_ARGUMENT;
	return *out = stat >= PERSISTENT ? comm->taken : 0, NCCL_OK;
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
	case NCCL_CUDA_ERROR:
		return "unhandled cuda error (simulated: see the message of cudasim)";
	case NCCL_SYSTEM_ERROR:
		return "unhandled system error (simulated: see the message of cudasim)";
	case NCCL_INTERNAL_ERROR:
		return "internal error (simulated: see the message of cudasim)";
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
	return error ? NCCL_CUDA_ERROR : NCCL_OK;
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

/* ---- one call at a time in a communicator */

int nccl_enter(struct comm *comm, const char *name, size_t bytes, int *result)
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

int nccl_leave(struct comm *comm, int result)
{
	pthread_mutex_unlock(&comm->lock);
	atomic_fetch_sub(&comm->busy, 1);
	clock_skip();
	return result;
}

/* ---- splitting: the colour and key of each rank, then a communicator for each colour */

/* The communicator that a split makes for this rank. */
struct split {
	int ranks, rank;
	uint64_t number; /* of the split */
	struct members members;
};

/* Splits a communicator whose ranks all run: each has announced its colour and key. */
static struct split split_complete(struct comm *comm, int colour, int key)
{
	struct split part = { 0 };
	for (int i = 0; i < comm->members; i++) {
		struct announcement said = comm_announcement(comm, i);
		int64_t other = (int64_t)said.second;
		if ((int64_t)said.first != colour)
			continue;
		part.ranks++;
		part.rank += other < key || (other == key && i < comm->position);
	}
	for (int i = 0; i < part.ranks; i++)
		part.members.rank[part.members.count++] = i;
	return part;
}

/* Can the keys of the ranks that run be their ranks in the new communicator? Then they differ, and
 * each is below the number of ranks. */
static bool keys_are_places(struct comm *comm, int colour)
{
	for (int i = 0; i < comm->members; i++) {
		struct announcement said = comm_announcement(comm, i);
		if ((int64_t)said.first != colour)
			continue;
		if (said.second >= (uint64_t)comm->ranks)
			return false;
		for (int j = 0; j < i; j++) {
			struct announcement other = comm_announcement(comm, j);
			if (other.first == said.first && other.second == said.second)
				return false;
		}
	}
	return true;
}

/* Splits a communicator with emulated ranks: the colour determines how many ranks belong to it,
 * and the keys of the ranks that run are their ranks in it. Other keys only give an order, equal
 * ones by the rank in the parent: all ranks of the parent are then taken to belong to it. */
static struct split split_emulated(struct comm *comm, int colour, int key)
{
	bool placed = !comm->shared || keys_are_places(comm, colour);
	int ranks = colour < 0 ? 1
		    : placed   ? peers_of_split(comm->ranks, comm->rank, colour, key)
			       : 0;
	if (!ranks)
		sim_say("ncclCommSplit: colour %d, key %d of rank %d of %d does not tell which ranks belong to it, and not all "
			"of them run: taken to be all %d",
			colour, key, comm->rank, comm->ranks, comm->ranks);
	struct split part = { .ranks = ranks ? ranks : comm->ranks };
	part.rank = placed && key >= 0 && key < part.ranks ? key : comm->rank;
	if (!comm->shared)
		part.members = (struct members){ 1, { part.rank } };
	for (int position = 0; comm->shared && position < part.ranks; position++)
		for (int i = 0; i < comm->members; i++) {
			struct announcement said = comm_announcement(comm, i);
			int64_t its = placed ? (int64_t)said.second : comm->member[i];
			if ((int64_t)said.first == colour && its == position)
				part.members.rank[part.members.count++] = position;
		}
	return part;
}

static int split_comm(struct comm *comm, int colour, int key, struct split *part)
{
	int result;
	if (nccl_enter(comm, "ncclCommSplit", 1, &result))
		return result;
	if (comm->shared)
		result = comm_exchange(comm, "ncclCommSplit",
				       (struct announcement){ SPLIT, 0, (uint64_t)(int64_t)colour,
							      (uint64_t)(int64_t)key },
				       NULL, 0);
	if (!result)
		*part = comm_has_emulated(comm) ? split_emulated(comm, colour, key)
			: comm->shared          ? split_complete(comm, colour, key)
						: (struct split){ 1, 0, 0, { 1, { 0 } } };
	part->number = comm->splits++;
	return nccl_leave(comm, result);
}

NCCL(int, ncclCommSplit, struct comm *comm, int colour, int key, struct comm **out, void *config)
{
	struct {
		struct unique_id parent;
		uint64_t split;
		int64_t colour;
		uint64_t word;
	} seed = { .colour = colour };
	struct unique_id id;
	struct split part = { 0 };
	(void)config;
	*out = NULL;
	int result = split_comm(comm, colour, key, &part);
	if (result)
		return result;
	seed.parent = comm->id;
	seed.split = part.number;
	if (colour < 0)
		return NCCL_OK;
	for (seed.word = 0; seed.word < sizeof id / 8; seed.word++) {
		uint64_t hash = together_hash(&seed, sizeof seed);
		memcpy(id.bytes + 8 * seed.word, &hash, 8);
	}
	return join_members(out, part.ranks, id, part.rank, &part.members);
}
