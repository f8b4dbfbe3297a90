/* NCCL's sends and receives: those of a group move together when it ends. */
#include "device/common.h"
#include "device/settings.h"
#include "time/speed.h"
#include "device/stream.h"
#include "nccl/collectives.h"
#include "nccl/comm.h"
#include "nccl/group.h"
#include "nccl/nccl.h"
#include "nccl/nccl_memory.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local struct message *queue;
static _Thread_local size_t queued, capacity;

/* Said once for each communicator: a schedule repeats them. */
static void warn_unchanged(struct message *m)
{
	if (!atomic_exchange(&m->comm->warned, true))
		sim_say("ncclRecv: %zu bytes from rank %d, which does not run: the buffer stays as it is; communicator of %d, rank %d",
			m->bytes, m->peer, m->comm->ranks, m->comm->rank);
}

/* The data of the same size that this rank sends in the same group: to that peer, else to any. */
static const struct message *mirrored(const struct message *messages, size_t count,
				      const struct message *m)
{
	const struct message *any = NULL;
	for (const struct message *s = messages; s < messages + count; s++) {
		if (s->receive || s->comm != m->comm || s->bytes != m->bytes)
			continue;
		if (s->peer == m->peer)
			return s;
		if (!any)
			any = s;
	}
	return any;
}

/* An emulated peer takes the messages to it, and sends those that its rank would send: see
 * peers.c. Returns how many messages are left, to and from ranks that run. */
static size_t emulate(struct message *messages, size_t count)
{
	size_t kept = 0;
	for (struct message *m = messages; m < messages + count; m++) {
		if (!m->receive || !comm_absent(m->comm, m->peer))
			continue;
		const struct message *same = mirrored(messages, count, m);
		if (same)
			memmove(m->data, same->data, m->bytes);
		else
			warn_unchanged(m);
	}
	for (size_t i = 0; i < count; i++)
		if (!comm_absent(messages[i].comm, messages[i].peer))
			messages[kept++] = messages[i];
	return kept;
}

static int run_messages(struct message *messages, size_t count)
{
	count = emulate(messages, count);
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

static int post_one(struct message message)
{
	if (!nccl_in_group())
		return message.peer == message.comm->rank ? NCCL_INVALID_USAGE
							  : run_messages(&message, 1);
	struct message *roomy = room_for_one(queue, queued, &capacity, sizeof *queue);
	if (!roomy)
		return NCCL_SYSTEM_ERROR;
	queue = roomy;
	queue[queued++] = message;
	return NCCL_OK;
}

static int post(struct comm *comm, void *data, size_t count, int type, int peer, bool receive)
{
	size_t bytes = nccl_bytes(count, type, 1);
	if (!nccl_has_rank(comm, peer))
		return NCCL_INVALID_ARGUMENT;
	sim_log("%s: %zu bytes, rank %d, peer %d", receive ? "ncclRecv" : "ncclSend", bytes,
		comm->rank, peer);
	int error = nccl_memory_message(comm, receive ? "ncclRecv" : "ncclSend", peer, receive);
	if (!nccl_travels(bytes, type))
		return error;
	for (size_t at = 0; at < bytes && !error; at += PAYLOAD)
		error = post_one(
			(struct message){ .comm = comm,
					  .data = (char *)data + at,
					  .bytes = bytes - at < PAYLOAD ? bytes - at : PAYLOAD,
					  .peer = peer,
					  .receive = receive });
	return error;
}

NCCL(int, ncclSend, const void *data, size_t count, int type, int peer, struct comm *comm,
     void *stream)
{
	stream_work(stream, speed_peers(nccl_bytes(count, type, 1), comm ? comm->ranks : 1, 1));
	return post(comm, (void *)data, count, type, peer, false);
}
NCCL(int, ncclRecv, void *data, size_t count, int type, int peer, struct comm *comm, void *stream)
{
	stream_work(stream, speed_peers(nccl_bytes(count, type, 1), comm ? comm->ranks : 1, 1));
	return post(comm, data, count, type, peer, true);
}
NCCL(int, ncclGroupStart, void)
{
	group_enter();
	return NCCL_OK;
}
NCCL(int, ncclGroupEnd, void)
{
	int left = group_leave();
	if (left)
		return left < 0 ? NCCL_INVALID_USAGE : NCCL_OK;
	collectives_group_end();
	if (!queued)
		return NCCL_OK;
	size_t count = (size_t)pair_own(queue, queued);
	queued = 0;
	return run_messages(queue, count);
}
