/*
 * The communicator for which NCCL takes memory. Since 2.22 NCCL connects a communicator, and
 * takes its buffers, at first use: on threads of its own, before the user's outermost call
 * returns. Two threads that use NCCL at once cannot be told apart.
 */
#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/nccl.h"
#include "hooks/nccl_comms.h"
#include "hooks/nccl_use.h"

#include "memory/counters.h"

#define GROUP_COMMS 8 /* if a group uses more communicators, the rest is not asked */

/* The thread's outermost group, or the last one. */
static __thread struct {
	unsigned depth;  /* ncclGroupStart() less ncclGroupEnd() */
	uint64_t before; /* bytes that NCCL held when the call began, plus those already reported */
	void *comm[GROUP_COMMS]; /* the communicator that its calls use */
	unsigned comms;
	int several;     /* more than one communicator */
	int changed;     /* NCCL took or gave memory */
	unsigned inside; /* calls of the thread that are under way: ncclBcast() calls another */
} group __attribute__((tls_model("initial-exec")));

int nccl_is_in_group(void)
{
	return group.depth > 0;
}

void nccl_group_start(int has_started)
{
	if (!group.depth) {
		group.before = counters_nccl();
		group.comms = 0;
		group.several = group.changed = 0;
	}
	group.depth += has_started != 0;
}

static void add_to_group(void *comm)
{
	for (unsigned i = 0; i < group.comms; i++)
		if (group.comm[i] == comm)
			return;
	group.several |= group.comms > 0;
	if (group.comms < GROUP_COMMS)
		group.comm[group.comms++] = comm;
}

/* The memory that NCCL took since BEFORE is COMM's. It is negative only if the call GIVES memory
 * back, as other threads may too. NCCL knows better, if it can be asked: not inside a group. */
static void count_used(void *comm, uint64_t before, int gives)
{
	int64_t change = (int64_t)(counters_nccl() - before);

	group.before += (uint64_t)change;
	group.changed |= change != 0;
	if (change < 0 && !gives)
		return;
	if (change && (nccl_is_in_group() || !comms_ask_used(comm)))
		comms_add_used(comm, change);
}

static void end_group(void)
{
	unsigned answers = 0;

	group.changed |= counters_nccl() != group.before;
	for (unsigned i = 0; i < group.comms && group.changed; i++)
		answers += (unsigned)comms_ask_used(group.comm[i]);
	if (!answers && group.comms == 1 && !group.several)
		count_used(group.comm[0], group.before, 0);
}

void nccl_group_end(void)
{
	if (group.depth && !--group.depth)
		end_group();
}

void nccl_group_except(uint64_t bytes)
{
	group.before += bytes;
}

static void end_call(void *comm, uint64_t before, int gives)
{
	if (--group.inside)
		return;
	add_to_group(comm);
	count_used(comm, before, gives);
}

/* GIVES: the call may give memory back too. */
#define CALL(symbol, params, args, gives)                      \
	int symbol params                                      \
	{                                                      \
		__typeof__(symbol) *call = REAL(symbol);       \
		uint64_t before = counters_nccl();             \
		int result;                                    \
		group.inside++;                                \
		result = call ? call args : NCCL_SYSTEM_ERROR; \
		end_call(comm, before, gives);                 \
		return result;                                 \
	}
#define USE(symbol, params, args) CALL(symbol, params, args, 0)
#define CHANGE(symbol, params, args) CALL(symbol, params, args, 1)

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
USE(ncclPutSignal,
    (const void *from, size_t count, int type, int peer, void *window, size_t offset, int signal,
     int context, unsigned flags, void *comm, void *stream),
    (from, count, type, peer, window, offset, signal, context, flags, comm, stream))
USE(ncclSignal, (int peer, int signal, int context, unsigned flags, void *comm, void *stream),
    (peer, signal, context, flags, comm, stream))
USE(ncclWaitSignal, (int count, void *signals, void *comm, void *stream),
    (count, signals, comm, stream))

/* ---- memory that a communicator gives back and takes again, and buffers registered with it */

CHANGE(ncclCommSuspend, (void *comm, int flags), (comm, flags))
CHANGE(ncclCommResume, (void *comm), (comm))
CHANGE(ncclCommRegister, (void *comm, void *buffer, size_t size, void **handle),
       (comm, buffer, size, handle))
CHANGE(ncclCommDeregister, (void *comm, void *handle), (comm, handle))
CHANGE(ncclCommWindowRegister, (void *comm, void *buffer, size_t size, void **window, int flags),
       (comm, buffer, size, window, flags))
CHANGE(ncclCommWindowDeregister, (void *comm, void *window), (comm, window))
CHANGE(ncclDevCommCreate, (void *comm, const void *requirements, void *out),
       (comm, requirements, out))
CHANGE(ncclDevCommDestroy, (void *comm, const void *made), (comm, made))
