/*
 * Which communicator NCCL takes memory for. Since 2.22 it connects one, and takes its buffers, at
 * first use: on threads of its own, before the user's outermost call returns. Two threads that use
 * NCCL at once cannot be told apart.
 */
#define _GNU_SOURCE
#include "entries.h"

#include "nccl.h"

#include "account.h"
#include "resolve.h"

/* The thread's outermost group, or the last one. */
static __thread struct {
	uint64_t before; /* what NCCL had when it began, and of what came since what is told */
	void *comm;	 /* that its calls are about */
	int several;	 /* not only that one */
	unsigned inside; /* calls of the thread that are under way: ncclBcast() calls another */
} group __attribute__((tls_model("initial-exec")));

void nccl_use_begin(void)
{
	group.before = account_nccl();
	group.comm = NULL;
	group.several = 0;
}

static void tell(void *comm, uint64_t before)
{
	int64_t took = (int64_t)(account_nccl() - before);

	if (took > 0)
		nccl_took(comm, (uint64_t)took);
	group.before += (uint64_t)took;
}

void nccl_use_end(void)
{
	if (group.comm && !group.several)
		tell(group.comm, group.before);
}

void nccl_use_except(uint64_t bytes)
{
	group.before += bytes;
}

static void used(void *comm, uint64_t before)
{
	if (--group.inside)
		return;
	group.several |= group.comm && group.comm != comm;
	group.comm = comm;
	tell(comm, before);
}

#define USE(symbol, params, args)                                  \
	int symbol params                                          \
	{                                                          \
		__typeof__(symbol) *call = REAL(symbol);           \
		uint64_t before = account_nccl();                  \
		int result;                                        \
		group.inside++;                                    \
		result = call ? call args : NCCL_SYSTEM_ERROR;     \
		used(comm, before);                                \
		return result;                                     \
	}

USE(ncclAllReduce,
    (const void *from, void *to, size_t count, int type, int operation, void *comm, void *stream),
    (from, to, count, type, operation, comm, stream))
USE(ncclReduce,
    (const void *from, void *to, size_t count, int type, int operation, int root, void *comm,
     void *stream),
    (from, to, count, type, operation, root, comm, stream))
USE(ncclReduceScatter,
    (const void *from, void *to, size_t count, int type, int operation, void *comm, void *stream),
    (from, to, count, type, operation, comm, stream))
USE(ncclAllGather, (const void *from, void *to, size_t count, int type, void *comm, void *stream),
    (from, to, count, type, comm, stream))
USE(ncclBroadcast,
    (const void *from, void *to, size_t count, int type, int root, void *comm, void *stream),
    (from, to, count, type, root, comm, stream))
USE(ncclBcast, (void *data, size_t count, int type, int root, void *comm, void *stream),
    (data, count, type, root, comm, stream))
USE(ncclSend, (const void *data, size_t count, int type, int peer, void *comm, void *stream),
    (data, count, type, peer, comm, stream))
USE(ncclRecv, (void *data, size_t count, int type, int peer, void *comm, void *stream),
    (data, count, type, peer, comm, stream))
USE(ncclAlltoAll, (const void *from, void *to, size_t count, int type, void *comm, void *stream),
    (from, to, count, type, comm, stream))
USE(ncclGather,
    (const void *from, void *to, size_t count, int type, int root, void *comm, void *stream),
    (from, to, count, type, root, comm, stream))
USE(ncclScatter,
    (const void *from, void *to, size_t count, int type, int root, void *comm, void *stream),
    (from, to, count, type, root, comm, stream))
