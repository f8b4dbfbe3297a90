/*
 * Who holds a device's memory, in the first pass. Every byte has one owner: what lies in PyTorch's
 * `reserved` is not here again, a pool's bytes are shared by those who use it, and what no call
 * showed is the context's, a communicator's, or unexplained.
 */
#ifndef MEMTRACE_HOLDINGS_H
#define MEMTRACE_HOLDINGS_H

#include "attribution/owner.h"
#include "util/util.h"

#define COMMS_KEPT 4096

struct holdings {
	bytes owned[OWNERS]; /* by tracked calls, outside of `reserved`, without pools */
	bytes owned_all;
	bytes pool_used[OWNERS];
	bytes pool_used_all, pool_level;
	enum owner pool_last; /* who used it last: holds what nobody uses */
	int pool_is_reserved; /* PyTorch's allocator uses it, and reports it as reserved */
	bytes stand_in;       /* PyTorch's own segments, where it reports nothing */
	bytes graphs;         /* level */
	bytes segments;       /* of PyTorch's allocator, by its own calls */
	int has_segments;     /* there was one */
	bytes lent;           /* reserved, and not by its own calls */
	bytes told, told_segments; /* what it said last that it holds, and its segments then */
};

void holdings_add(struct holdings *h, enum owner o, bytes delta);
void holdings_add_pool(struct holdings *h, enum owner o, bytes delta);
/* PyTorch's allocator says what it holds. */
void holdings_reserved(struct holdings *h, bytes reserved);
/* What it holds now. It says so with its next block only: segments that it gives back before, as
 * empty_cache() does, are gone already. */
bytes holdings_now_reserved(const struct holdings *h);
/* What libtorch and NCCL allocated for PyTorch's allocator (memory of a MemPool), which so is in
 * `reserved` already; taken from `by`, which may be NULL. */
bytes holdings_lent(const struct holdings *h, bytes by[OWNERS]);
/* What the pools hold. */
bytes holdings_pool(const struct holdings *h);
/* Adds a pool's bytes to `to`, by use. */
void holdings_share_pool(const struct holdings *h, bytes to[OWNERS]);

/* A communicator. */
struct communicator {
	uint64_t address;
	uint64_t sequence;                 /* of its COMM_INIT, UINT64_MAX unknown */
	uint64_t created_ns, destroyed_ns; /* destroyed: UINT64_MAX never */
	bytes bytes;                       /* that its creation took on the device */
	bytes hidden;                      /* of them those that no tracked call gave */
	int confirmed;                     /* by the keyframe that is being read */
};

/* A sample: what was used on the device and not by others than NCCL, and what NCCL's calls had
 * taken of that. */
struct sampled {
	bytes used, tracked;
};
#define SAMPLES_KEPT 8

struct communicators {
	struct communicator *list; /* by sequence */
	size_t count, room;
	uint64_t seen;                        /* there may be more than are kept */
	bytes hidden;                         /* of the live ones */
	struct sampled samples[SAMPLES_KEPT]; /* the latest is samples[(sample_count - 1) % KEPT] */
	uint64_t sample_count;
};

void comms_sample(struct communicators *c, bytes used, bytes tracked);
/* Finds what of a new communicator's bytes no tracked call gave; `tracked` is what NCCL's calls
 * have taken by now. */
void comms_hide(struct communicators *c, struct communicator *made, bytes tracked);
/* Returns its index, COMMS_KEPT if it is not kept. */
uint32_t comms_add(struct communicators *c, const struct communicator *made);
/* Returns what it hid: by so much the untracked bytes shrink. */
bytes comms_end(struct communicators *c, uint32_t index, uint64_t time_ns);

#endif
