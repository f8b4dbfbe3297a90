/* Part of the first pass: what every event but those of tensors changes in a device's owner usage.
 */
#ifndef MEMTRACE_ACCOUNTING_H
#define MEMTRACE_ACCOUNTING_H

#include "replay/live_set.h"
#include "replay/replay.h"

struct account {
	const struct trace *trace;
	/* Live allocations other than tensors and mappings. Of a COMM_INIT record, `stack` is the
	 * index of its communicator. */
	struct live_set live;
};

/* The bytes that each owner holds now; they add up to moment_device(). */
void account_owners(const struct device *d, bytes to[OWNERS]);

/* RESERVED, POOL_RESERVED, GRAPH_RESERVED. */
void account_level(struct device *d, const struct mt_record *r);
/* Compares the last sample (cudaMemGetInfo) with the tracked memory. */
void account_sample(struct device *d);
/* The changes that an event made, as bits. */
enum account_change {
	ACCOUNT_ALLOCATED = 1, /* `allocated`, of a device that is counted from the runtime */
	ACCOUNT_OWNERS = 2,    /* the bytes of some owner */
};
/* ALLOC and FREE of the DEVICE and POOL layers. Returns enum account_change. */
int account_runtime(struct account *a, struct device *d, const struct mt_record *r);
/* COMM_INIT and COMM_DESTROY. */
void account_comm(struct account *a, struct device *d, const struct mt_record *r,
		  uint64_t sequence);
/* Does PyTorch's allocator allocate its segments by this kind of event? */
int account_is_segment_kind(unsigned alloc_kind);
/* Is it an event of a block that PyTorch's allocator gave to a tensor, or of a call that counts as
 * one? Of a segment of the allocator, or of a mapped part of an expandable one? FREE events too;
 * `d` is the event's device. */
int account_is_block(const struct device *d, const struct tables *t, const struct mt_record *r);
int account_is_segment(const struct device *d, const struct tables *t, const struct mt_record *r);
/* Is it a failure of the job? When the runtime refuses, the caching allocator frees its cache and
 * tries again, so only its own report is a failure. The refusal of any other caller is one. */
int account_is_failure(const struct device *d, const struct tables *t, const struct mt_record *r);
/* A FAIL event: notes the segment that PyTorch's allocator was refused. Returns the one for which
 * the allocator fails now; 0: not known. */
bytes account_refused(struct device *d, const struct tables *t, const struct mt_record *r);

/* A keyframe begins; it names a live communicator; it is complete. */
void account_keyframe_begin(struct account *a, struct replay *replay);
void account_keyframe_comm(struct account *a, struct device *d, const struct mt_record *r,
			   uint64_t now_ns);
void account_keyframe_end(struct account *a, struct device *d, uint64_t now_ns);

static inline void account_add(bytes *level, bytes delta)
{
	*level = bytes_add(*level, delta);
}

#endif
