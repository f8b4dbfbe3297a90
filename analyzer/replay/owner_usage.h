/*
 * The bytes that each owner holds of one device. Every byte has one owner: what PyTorch reports as
 * `reserved` is PyTorch's alone, a pool's bytes are divided among its users, and what no recorded
 * call explains is the context's, a communicator's, or unexplained.
 */
#ifndef MEMTRACE_OWNER_USAGE_H
#define MEMTRACE_OWNER_USAGE_H

#include "attribution/owner.h"
#include "util/util.h"

struct owner_usage {
	bytes owned[OWNERS]; /* by recorded calls, outside of `reserved`, without pools */
	bytes owned_all;
	bytes pool_used[OWNERS];
	bytes pool_used_all, pool_level;
	enum owner pool_last; /* last owner to allocate from the pool: unused pool bytes are its */
	int pool_is_reserved; /* PyTorch's allocator allocates from the pool and reports it */
	bytes runtime_bytes;  /* segments of PyTorch's allocator, if it reports nothing */
	bytes graphs;         /* held by the driver for CUDA graphs */
	bytes segments;       /* of PyTorch's allocator, allocated by its own calls */
	int has_segments;     /* there was such a call */
	bytes adopted;        /* reserved, and not allocated by the allocator's own calls */
	/* The allocator's last report of `reserved`, and `segments` at that time. */
	bytes last_reported, segments_at_report;
};

void usage_add(struct owner_usage *h, enum owner o, bytes delta);
void usage_add_pool(struct owner_usage *h, enum owner o, bytes delta);
/* PyTorch's allocator reports `reserved`. */
void usage_reported(struct owner_usage *h, bytes reserved);
/* The allocator's `reserved` at present. It reports with its next block only, so segments that it
 * freed since its last report (as empty_cache() does) are taken off. */
bytes usage_reserved(const struct owner_usage *h);
/* Memory that libtorch and NCCL allocated for PyTorch's allocator (a MemPool): it is in `reserved`.
 * Returns its bytes, and takes them off `by`, which may be NULL. */
bytes usage_adopted(const struct owner_usage *h, bytes by[OWNERS]);
/* The bytes that the pools hold. */
bytes usage_pool(const struct owner_usage *h);
/* Adds the bytes of the pools to `to`, in proportion to what each owner uses. */
void usage_share_pool(const struct owner_usage *h, bytes to[OWNERS]);

#endif
