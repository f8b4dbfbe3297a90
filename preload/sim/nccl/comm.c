/* The rendezvous behind the simulated NCCL: one segment of memory a communicator (segment.c).
 *
 * An exchange is double-buffered: a rank can only overwrite what it published two exchanges ago,
 * and by then every other rank has read it, because each waits for all at every step. Every wait
 * ends: by success, by the time limit, or because a peer died or left; and each failure names the
 * call, the communicator and the ranks that are missing.
 */
#define _GNU_SOURCE
#include "nccl/comm.h"

#include "device/common.h"
#include "device/settings.h"
#include "nccl/nccl_memory.h"
#include "nccl/segment.h"
#include "nccl/together.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RING = 8, PAGE = 4096, POLL_US = 100, SPINS = 200 };

/* Messages from one rank to another, oldest first; `bytes` travels with each, so a mismatch is
 * seen. */
struct mailbox {
	_Atomic uint64_t written, read;
	uint64_t bytes[RING];
	char data[RING][PAYLOAD];
};

static size_t head_size(void)
{
	return round_up(sizeof(struct shared), PAGE);
}
static size_t slots_size(const struct comm *comm)
{
	return (size_t)comm->members * 2 * PAYLOAD;
}
static size_t mailbox_size(void)
{
	return round_up(sizeof(struct mailbox), PAGE);
}

/* From here on a rank is a position among the members that run. */
static char *slot(const struct comm *comm, int position, uint64_t step)
{
	return (char *)comm->shared + head_size() + ((size_t)position * 2 + step % 2) * PAYLOAD;
}

static size_t mailbox_offset(const struct comm *comm, int from, int to)
{
	return head_size() + slots_size(comm) +
	       ((size_t)from * (size_t)comm->members + (size_t)to) * mailbox_size();
}

static struct mailbox *mailbox(const struct comm *comm, int from, int to)
{
	return (struct mailbox *)((char *)comm->shared + mailbox_offset(comm, from, to));
}

int comm_deputy(const struct comm *comm, int rank)
{
	int below = 0;
	if (!comm_absent(comm, rank))
		return rank;
	while (below < comm->members && comm->member[below] < rank)
		below++;
	return comm->member[(rank - below) % comm->members];
}

/* ---- waiting */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A killed rank stays a zombie until its launcher reaps it, so that kill(pid, 0) would still find
 * it. */
static bool process_dead(int pid)
{
	char path[40], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return errno == ENOENT;
	ssize_t length = read(file, text, sizeof text - 1);
	close(file);
	if (length <= 0)
		return true;
	text[length] = '\0';
	const char *state = strrchr(text, ')');
	return state && state[1] && (state[2] == 'Z' || state[2] == 'X');
}

struct wait {
	struct comm *comm;
	const char *call;
	bool (*missing)(const struct comm *comm, int position, uint64_t goal);
	uint64_t goal;
	double start, checked;
	unsigned turns;
};

/* The numbers of the ranks in the communicator, or in the job. */
static void list_missing(const struct wait *wait, bool of_job, char *out, size_t size)
{
	const struct comm *comm = wait->comm;
	size_t at = 0;
	*out = '\0';
	for (int i = 0; i < comm->members && at + 16 < size; i++) {
		int job = atomic_load(&comm->shared->rank[i].of_job) - 1;
		if (!wait->missing(comm, i, wait->goal))
			continue;
		at += (size_t)snprintf(out + at, size - at, "%s", at ? ", " : "");
		if (of_job && job < 0)
			at += (size_t)snprintf(out + at, size - at, "?");
		else
			at += (size_t)snprintf(out + at, size - at, "%d",
					       of_job ? job : comm->member[i]);
	}
}

/* The rank that this process is in its job; -1: not known. */
static int rank_of_job(void)
{
	const char *rank = getenv("RANK");
	return rank && *rank ? atoi(rank) : -1;
}

/* Says the call, the reason, the communicator, and which ranks wait for which, in it and in the
 * job. */
static void describe(const struct wait *wait, const char *why, char *out, size_t size)
{
	const struct comm *comm = wait->comm;
	char ranks[128];
	list_missing(wait, false, ranks, sizeof ranks);
	int at = snprintf(out, size,
			  "%s: %s; communicator %s, rank %d of %d, waiting for rank(s) %s",
			  wait->call, why, comm->name, comm->rank, comm->ranks, ranks);
	list_missing(wait, true, ranks, sizeof ranks);
	if (rank_of_job() >= 0 && at > 0 && (size_t)at < size)
		snprintf(out + at, size - (size_t)at, "; in the job, rank %d for rank(s) %s",
			 rank_of_job(), ranks);
}

static int give_up(const struct wait *wait, const char *why, int error)
{
	char text[TOGETHER_TEXT];
	describe(wait, why, text, sizeof text);
	sim_say("%s", text);
	return error;
}

static void report_wait(const struct wait *wait)
{
	char text[TOGETHER_TEXT];
	describe(wait, "not done", text, sizeof text);
	together_where(text);
}

/* Called repeatedly while a condition does not hold: 0 to go on, else the reason to stop. */
static int wait_turn(struct wait *wait)
{
	struct comm *comm = wait->comm;
	if (atomic_load(&comm->aborted))
		return NCCL_SYSTEM_ERROR;
	if (wait->turns++ < SPINS) {
		sched_yield();
		return 0;
	}
	double time = now();
	if (wait->start == 0) {
		wait->start = wait->checked = time;
		together_waits(true);
	}
	together_looked();
	usleep(POLL_US);
	if (time - wait->checked > 0.2) {
		wait->checked = time;
		report_wait(wait);
		for (int i = 0; i < comm->members; i++) {
			int pid = atomic_load(&comm->shared->rank[i].pid);
			if (!wait->missing(comm, i, wait->goal) || !pid)
				continue;
			if (atomic_load(&comm->shared->rank[i].left))
				return give_up(wait, "a rank has left", NCCL_REMOTE_ERROR);
			if (process_dead(pid))
				return give_up(wait, "a rank's process has died",
					       NCCL_REMOTE_ERROR);
		}
	}
	if (time - wait->start > (double)settings.timeout)
		return give_up(wait, "time limit (CUDASIM_TIMEOUT) reached", NCCL_SYSTEM_ERROR);
	return 0;
}

/* The wait is over, with that result. */
static int wait_end(struct wait *wait, int result)
{
	if (wait->start != 0)
		together_waits(false);
	wait->start = 0;
	return result;
}

/* ---- joining and leaving */

static bool not_attached(const struct comm *comm, int position, uint64_t goal)
{
	(void)goal;
	return !atomic_load(&comm->shared->rank[position].pid);
}

static int map_segment(struct comm *comm)
{
	size_t fixed = head_size() + slots_size(comm);
	comm->size = fixed + (size_t)comm->members * (size_t)comm->members * mailbox_size();
	snprintf(comm->name, sizeof comm->name, "cudasim-%016llx",
		 (unsigned long long)together_hash(&comm->id, sizeof comm->id));
	int error = segment_open(comm->name, comm->size, fixed, &comm->file, &comm->listener);
	if (error)
		return error;
	void *map = mmap(NULL, comm->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			 comm->file, 0);
	if (map == MAP_FAILED)
		return errno;
	comm->shared = map;
	return 0;
}

/* The ranks that run: this one alone, all, or those that the store names. A split knows them
 * before. */
static int find_members(struct comm *comm)
{
	if (comm->members)
		return NCCL_OK;
	if (comm->ranks > 1 && *settings.together)
		return together_members(comm);
	if (comm->ranks == 1 || settings.alone) {
		comm->member[comm->members++] = comm->rank;
		return NCCL_OK;
	}
	if (comm->ranks > COMM_RANKS) {
		sim_say("ncclCommInitRank: %d ranks; at most %d can run together (CUDASIM_ALONE=1 emulates the others)",
			comm->ranks, COMM_RANKS);
		return NCCL_INVALID_USAGE;
	}
	while (comm->members < comm->ranks) {
		comm->member[comm->members] = comm->members;
		comm->members++;
	}
	return NCCL_OK;
}

static void close_listener(struct comm *comm)
{
	if (comm->listener >= 0)
		close(comm->listener);
	comm->listener = -1;
}

int comm_join(struct comm *comm)
{
	pthread_mutex_init(&comm->lock, NULL);
	comm->file = comm->listener = -1;
	int error = find_members(comm);
	if (error)
		return error;
	comm->position = comm_position(comm, comm->rank);
	if (comm->position < 0) {
		sim_say("ncclCommInitRank: rank %d of %d is not among those that run of this communicator",
			comm->rank, comm->ranks);
		return NCCL_INVALID_USAGE;
	}
	if (comm->members == 1)
		return NCCL_OK;
	error = map_segment(comm);
	if (error) {
		sim_say("ncclCommInitRank: shared memory %s (%zu bytes): %s", comm->name,
			comm->size, strerror(error));
		return NCCL_SYSTEM_ERROR;
	}
	struct shared_rank *self = &comm->shared->rank[comm->position];
	int nobody = 0;
	if (!atomic_compare_exchange_strong(&self->pid, &nobody, getpid())) {
		sim_say("ncclCommInitRank: two processes say they are rank %d of communicator %s",
			comm->rank, comm->name);
		munmap(comm->shared, comm->size); /* the other's: it has not left */
		comm->shared = NULL;
		return NCCL_INVALID_USAGE;
	}
	atomic_store(&self->of_job, rank_of_job() + 1);
	atomic_fetch_add(&comm->shared->attached, 1);
	struct wait wait = { .comm = comm, .call = "ncclCommInitRank", .missing = not_attached };
	while (!error && atomic_load(&comm->shared->attached) < (uint32_t)comm->members) {
		if (comm->listener >= 0)
			segment_hand_out(comm->file, comm->listener);
		error = wait_turn(&wait);
	}
	close_listener(comm);
	return wait_end(&wait, error);
}

void comm_leave(struct comm *comm)
{
	atomic_store(&comm->aborted, true);
	while (atomic_load(&comm->busy))
		usleep(POLL_US);
	if (comm->shared) {
		atomic_store(&comm->shared->rank[comm->position].left, true);
		munmap(comm->shared, comm->size);
	}
	close_listener(comm);
	if (comm->file >= 0)
		close(comm->file);
	nccl_memory_released(comm);
	free(comm->connected);
	pthread_mutex_destroy(&comm->lock);
	free(comm);
}

/* ---- exchanges */

static bool behind(const struct comm *comm, int position, uint64_t goal)
{
	return atomic_load(&comm->shared->rank[position].step) < goal;
}

const void *comm_slot(struct comm *comm, int rank)
{
	return slot(comm, comm_position(comm, comm_deputy(comm, rank)), comm->step - 1);
}

struct announcement comm_announcement(struct comm *comm, int position)
{
	return comm->shared->rank[position].said[(comm->step - 1) % 2];
}

/* Ranks that make different calls would hang a real job; here the two calls are named. */
static int compare(struct comm *comm, const char *call, const struct announcement *mine)
{
	for (int i = 0; i < comm->members; i++) {
		struct announcement other = comm_announcement(comm, i);
		if (other.call == mine->call && other.bytes == mine->bytes)
			continue;
		sim_say("%s: ranks disagree in communicator %s: rank %d makes call %llu with %llu bytes, rank %d call %llu with "
			"%llu bytes",
			call, comm->name, comm->rank, (unsigned long long)mine->call,
			(unsigned long long)mine->bytes, comm->member[i],
			(unsigned long long)other.call, (unsigned long long)other.bytes);
		return NCCL_INVALID_USAGE;
	}
	return NCCL_OK;
}

int comm_exchange(struct comm *comm, const char *call, struct announcement what, const void *data,
		  size_t bytes)
{
	struct shared_rank *self = &comm->shared->rank[comm->position];
	self->said[comm->step % 2] = what;
	if (bytes)
		memcpy(slot(comm, comm->position, comm->step), data, bytes);
	uint64_t goal = ++comm->step;
	atomic_store(&self->step, goal);
	struct wait wait = { .comm = comm, .call = call, .missing = behind, .goal = goal };
	for (int i = 0; i < comm->members; i++)
		while (behind(comm, i, goal)) {
			int error = wait_turn(&wait);
			if (error)
				return wait_end(&wait, error);
		}
	wait_end(&wait, NCCL_OK);
	return compare(comm, call, &what);
}

/* ---- messages: a group's are moved on in any order, so that rings of sends cannot block one
 * another */

static bool is_peer(const struct comm *comm, int position, uint64_t goal)
{
	(void)comm;
	return (uint64_t)position == goal;
}

/* The pages of a mailbox exist from its first use: n * n mailboxes would take many. */
static int mailbox_ready(struct comm *comm, int from, int to)
{
	bool *ready = from == comm->position ? &comm->sends[to] : &comm->receives[from];
	if (*ready)
		return NCCL_OK;
	int error = posix_fallocate(comm->file, (off_t)mailbox_offset(comm, from, to),
				    (off_t)mailbox_size());
	if (error)
		sim_say("ncclSend: shared memory %s: %s", comm->name, strerror(error));
	*ready = !error;
	return error ? NCCL_SYSTEM_ERROR : NCCL_OK;
}

static int message_send(struct message *m)
{
	struct comm *comm = m->comm;
	int peer = comm_position(comm, m->peer), error = mailbox_ready(comm, comm->position, peer);
	if (error)
		return error;
	struct mailbox *box = mailbox(comm, comm->position, peer);
	uint64_t at = atomic_load(&box->written);
	if (at - atomic_load(&box->read) == RING)
		return NCCL_OK;
	box->bytes[at % RING] = m->bytes;
	memcpy(box->data[at % RING], m->data, m->bytes);
	atomic_store(&box->written, at + 1);
	m->done = true;
	return NCCL_OK;
}

static int message_receive(struct message *m)
{
	struct comm *comm = m->comm;
	int peer = comm_position(comm, m->peer), error = mailbox_ready(comm, peer, comm->position);
	if (error)
		return error;
	struct mailbox *box = mailbox(comm, peer, comm->position);
	uint64_t at = atomic_load(&box->read);
	if (at == atomic_load(&box->written))
		return NCCL_OK;
	if (box->bytes[at % RING] != m->bytes) {
		sim_say("ncclRecv: communicator %s: rank %d expects %zu bytes from rank %d, which sent %llu",
			comm->name, comm->rank, m->bytes, m->peer,
			(unsigned long long)box->bytes[at % RING]);
		return NCCL_INVALID_USAGE;
	}
	memcpy(m->data, box->data[at % RING], m->bytes);
	atomic_store(&box->read, at + 1);
	m->done = true;
	return NCCL_OK;
}

/* Messages between the same two ranks keep their order. */
static bool behind_another(const struct message *waiting, size_t count, const struct message *m)
{
	for (size_t i = 0; i < count; i++)
		if (waiting[i].comm == m->comm && waiting[i].peer == m->peer &&
		    waiting[i].receive == m->receive)
			return true;
	return false;
}

/* Moves the messages that can be moved now, and puts the rest first, in order: *count of them. */
static int move_messages(struct message *messages, size_t *count)
{
	size_t kept = 0;
	for (size_t i = 0; i < *count; i++) {
		struct message m = messages[i];
		int error = behind_another(messages, kept, &m) ? NCCL_OK
			    : m.receive                        ? message_receive(&m)
							       : message_send(&m);
		if (error)
			return error;
		messages[i] = m;
		if (m.done)
			continue;
		messages[i] = messages[kept];
		messages[kept++] = m;
	}
	*count = kept;
	return NCCL_OK;
}

int comm_messages(struct message *messages, size_t count)
{
	struct wait wait = { 0 };
	int error = NCCL_OK;
	while (count) {
		size_t before = count;
		error = move_messages(messages, &count);
		if (error || !count)
			break;
		const struct message *m = &messages[0];
		if (count != before || wait.comm != m->comm) {
			wait_end(&wait, NCCL_OK);
			wait = (struct wait){ .comm = m->comm,
					      .missing = is_peer,
					      .call = m->receive ? "ncclRecv" : "ncclSend",
					      .goal = (uint64_t)comm_position(m->comm, m->peer) };
		}
		error = wait_turn(&wait);
		if (error)
			break;
	}
	return wait_end(&wait, error);
}
