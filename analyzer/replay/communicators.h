/*
 * NCCL communicators of one device, and the device memory that each one hides: memory that NCCL
 * takes without a call that the recorder sees. The samples of cudaMemGetInfo around a creation show
 * it.
 */
#ifndef MEMTRACE_COMMUNICATORS_H
#define MEMTRACE_COMMUNICATORS_H

#include "util/util.h"

#define COMMS_KEPT 4096

struct communicator {
	uint64_t address;
	uint64_t sequence;                 /* of its COMM_INIT record; UINT64_MAX: not known */
	uint64_t created_ns, destroyed_ns; /* destroyed_ns UINT64_MAX: never */
	bytes bytes;                       /* that its creation took on the device */
	bytes hidden;                      /* the part of them that no recorded call allocated */
	int confirmed;                     /* named by the keyframe that is being read */
};

/* One cudaMemGetInfo: the bytes used on the device by NCCL and by what is not tracked, and the
 * bytes that NCCL's recorded calls had allocated by then. */
struct comm_sample {
	bytes used, tracked;
};
#define SAMPLES_KEPT 8

struct communicators {
	struct communicator *list; /* by sequence */
	size_t count, room;
	uint64_t seen;                            /* communicators that were created, kept or not */
	bytes hidden;                             /* of the live ones */
	struct comm_sample samples[SAMPLES_KEPT]; /* a ring: the latest is at sample_count - 1 */
	uint64_t sample_count;
};

void comms_sample(struct communicators *c, bytes used, bytes tracked);
/* Sets `created->hidden`. `tracked`: the bytes that NCCL's recorded calls have allocated so far. */
void comms_hide(struct communicators *c, struct communicator *created, bytes tracked);
/* Returns the index of the communicator, or COMMS_KEPT if there are too many to keep it. */
uint32_t comms_add(struct communicators *c, const struct communicator *created);
/* Returns the hidden bytes that are free from now on. */
bytes comms_end(struct communicators *c, uint32_t index, uint64_t time_ns);

#endif
