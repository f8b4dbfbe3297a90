/* A simulated NCCL communicator: the ranks of one machine, meeting in shared memory. */
#ifndef CUDASIM_COMM_H
#define CUDASIM_COMM_H

#include "device/common.h"

#include <memtrace/together.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
	NCCL_OK = 0,
	NCCL_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6
};
enum { COMM_RANKS = TOGETHER_RANKS }; /* that run: more are emulated */
/* Memory of a communicator's creation, a ring, NVLS, each peer in the node or all beyond it: two
 * directions each. */
enum { COMM_BUFFERS = 2 * (3 + MAX_DEVICES) };
/* Bytes of a message that are really exchanged. Larger messages are tensors, whose content is never
 * read. */
#define PAYLOAD KIB(64)

struct unique_id {
	char bytes[UNIQUE_ID];
};

/* The call that a rank says it makes; the others compare it. */
struct announcement {
	uint64_t call, bytes, first, second;
};

struct shared_rank {
	_Atomic int pid;
	_Atomic int of_job;    /* its rank in the job plus 1; 0: not known */
	atomic_bool left;      /* destroyed its communicator */
	_Atomic uint64_t step; /* exchanges it has published */
	struct announcement said[2];
};
struct shared {
	_Atomic uint32_t attached;
	struct shared_rank rank[COMM_RANKS];
};

struct comm {
	struct unique_id id;
	int ranks, rank, device;
	int members, position;  /* ranks of it that run, and the position of this one */
	int member[COMM_RANKS]; /* their numbers in it, ascending */
	char name[40];
	int file, listener; /* see segment.c */
	size_t size;
	uint64_t buffer[COMM_BUFFERS]; /* that it took of its device: see nccl_memory.c */
	atomic_uint buffers;
	_Atomic uint64_t taken;                       /* their bytes together */
	bool late;                                    /* connects at first use */
	atomic_bool ring, nvls;                       /* connected */
	_Atomic unsigned char *connected;             /* by peer: which ways */
	struct shared *shared;                        /* NULL: no other rank runs */
	bool sends[COMM_RANKS], receives[COMM_RANKS]; /* by position: the mailbox has its pages */
	uint64_t step, splits;
	pthread_mutex_t lock; /* one exchange at a time */
	atomic_int busy;      /* calls inside: abort waits for them */
	atomic_bool aborted, warned;
};

/* The position of `rank` among the members that run; -1: it is emulated, see peers.c. */
static inline int comm_position(const struct comm *comm, int rank)
{
	for (int i = 0; i < comm->members; i++)
		if (comm->member[i] == rank)
			return i;
	return -1;
}
static inline bool comm_absent(const struct comm *comm, int rank)
{
	return comm->members < comm->ranks && comm_position(comm, rank) < 0;
}
/* Some of its ranks do not run. */
static inline bool comm_has_emulated(const struct comm *comm)
{
	return comm && comm->members < comm->ranks;
}

int comm_join(struct comm *comm);
/* For an absent rank, the member whose data is used for it; for one that runs, itself. */
int comm_deputy(const struct comm *comm, int rank);
void comm_leave(struct comm *comm);
/* Publishes `bytes` at `data` and waits until every member has: then comm_slot() is the data
 * that a rank, or its deputy, published. */
int comm_exchange(struct comm *comm, const char *call, struct announcement what, const void *data,
		  size_t bytes);
const void *comm_slot(struct comm *comm, int rank);
struct announcement comm_announcement(struct comm *comm, int position);

/* One message of a group of sends and receives. */
struct message {
	struct comm *comm;
	void *data;
	size_t bytes;
	int peer;
	bool receive, done;
};
int comm_messages(struct message *messages, size_t count);

#endif
