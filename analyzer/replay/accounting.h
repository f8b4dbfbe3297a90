/* The first pass's accounts: what each event but those of tensors does to a device's holdings. */
#ifndef MEMTRACE_ACCOUNT_H
#define MEMTRACE_ACCOUNT_H

#include "trace/visit.h"

struct account {
	const struct trace *trace;
	struct live live; /* without tensors and mappings; of a COMM_INIT `stack` is its index */
};

/* What each owner holds now: adds up to moment_device(). */
void account_holders(const struct device *d, bytes to[OWNERS]);

/* RESERVED, POOL_RESERVED, GRAPH_RESERVED. */
void account_level(struct device *d, const struct mt_record *r);
/* What cudaMemGetInfo said last, against what is tracked. */
void account_sample(struct device *d);
/* ALLOC and FREE of the DEVICE and POOL layers. Returns what of this it was. */
enum account_change {
	ACCOUNT_STAND_IN = 1, /* by PyTorch's allocator, for which it stands */
	ACCOUNT_HOLDERS = 2,  /* somebody holds more or less than before */
};
int account_runtime(struct account *a, struct device *d, const struct mt_record *r);
/* COMM_INIT and COMM_DESTROY. */
void account_comm(struct account *a, struct device *d, const struct mt_record *r,
		  uint64_t sequence);
/* Is it a kind that PyTorch's allocator makes its segments with? */
int account_is_segment_kind(unsigned alloc_kind);

/* A keyframe: begins, names a live communicator, is complete. */
void account_restart(struct account *a, struct replay *replay);
void account_keyframe_comm(struct account *a, struct device *d, const struct mt_record *r,
			   uint64_t now_ns);
void account_restarted(struct account *a, struct device *d, uint64_t now_ns);

static inline void account_add(bytes *level, bytes delta)
{
	*level = bytes_add(*level, delta);
}

#endif
