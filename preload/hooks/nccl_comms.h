/* The known communicators of NCCL: a COMM_INIT of each, and the memory that its uses took. */
#ifndef PRELOAD_NCCL_COMMS_H
#define PRELOAD_NCCL_COMMS_H

#include <stdint.h>

struct communicator {
	void *comm; /* NULL: a free slot */
	uint64_t sequence, bytes;
	int64_t used;
	unsigned device;
	const void *maker;  /* the function that made it: others come from the same copy of NCCL */
	uint64_t parent;    /* of a communicator to be described: its parent's record */
	const void *thread; /* the thread that describes it after its group; NULL: described */
};

/* Call this in a forked child. */
void comms_forget(void);

void comms_remember(const struct communicator *made);
/* Removes a communicator, and copies it to GONE. Returns 0 if it is not known. */
int comms_take(void *comm, struct communicator *gone);
/* The number of its COMM_INIT; MT_UNKNOWN: it is not known. */
uint64_t comms_sequence(const void *comm);

/* Writes size, rank and parent of the communicator with this COMM_INIT. */
void comms_describe(uint64_t sequence, int size, int rank, uint64_t parent);
/* The thread describes COMM, which was just recorded, after its group: a communicator in the making
 * has no size yet. */
void comms_describe_later(void *comm, const void *parent);
/* Describes those that the thread left for later. */
void comms_describe_now(void);
/* Did any thread leave one for later? */
int comms_are_undescribed(void);

/* The memory that the copy of NCCL with MAKER holds for COMM, if that copy reports it (2.29.7
 * and later). */
int comms_ask_total(const void *maker, void *comm, uint64_t *bytes);

/* The use of COMM made NCCL take BYTES more (signed). */
void comms_add_used(void *comm, int64_t bytes);
/* The same, as NCCL itself reports it (2.29.7 and later). Returns 0 if NCCL does not. Not for a
 * communicator that a group is still about to use. */
int comms_ask_used(void *comm);

#endif
