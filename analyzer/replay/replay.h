/*
 * From events to what happened: curves, peaks, steps, failures, the live set.
 *
 * Two passes over the file. The first adds up signed bytes, writes down what the job was doing, no
 * more, and finds where the peaks and the failures are (it is repeated in the rare case that it had
 * to guess wrong, see struct assumptions). The second keeps the live set and looks at it at those points and at the end.
 * Memory: the live set and what is reported.
 */
#ifndef MEMTRACE_REPLAY_H
#define MEMTRACE_REPLAY_H

#include "replay/owner_usage.h"
#include "replay/live_set.h"
#include "replay/snapshot.h"
#include "attribution/spans.h"
#include "replay/timeline.h"
#include "trace/trace.h"

#define REPLAY_MAX_OOMS 128                 /* that are looked at: the first ones and the last */
#define REPLAY_MAX_BYTES (INT64_C(1) << 50) /* no event is larger: more is damage */
#define REPLAY_MAX_NS (1ull << 60) /* 36 years after the start */

/* A point of the trace: after `record` records of a segment (0: after its keyframe). */
struct position {
	uint64_t segment, record;
};

struct moment {
	struct position at;
	uint64_t time_ns;
	bytes allocated, reserved, other, untracked;
	uint32_t stack;
	uint16_t thread;
	/* Known once the first pass is done. */
	uint32_t step; /* 0 unknown */
	unsigned char phase, part;
};

struct failure {
	struct moment when;
	int from_runtime; /* the runtime refused, and no allocator of PyTorch's said more */
	uint32_t stack;
	bytes requested;
	uint64_t free;         /* on the device, MT_UNKNOWN */
	bytes largest_free;    /* cached block; -1 unknown */
	uint64_t later_allocs; /* what was handed out after it, up to the next failure */
	bytes later_bytes;
	bytes holders[OWNERS]; /* of the device, as far as calls tell */
	struct snapshot live;  /* the largest groups */
};

struct device {
	int seen;
	/*
	 * The caching allocator reported nothing, so cudaMallocAsync and cudaMalloc calls of
	 * PyTorch stand in (backend:cudaMallocAsync, PYTORCH_NO_CUDA_MEMORY_CACHING).
	 */
	int stand_in;
	uint64_t events, tensor_allocs, tensor_frees, pytorch_allocs, reserved_levels;
	bytes total; /* the device's size; 0 unknown */

	struct moment now; /* pass 1: running; then the last moment */
	struct holdings held;
	struct communicators comms;
	bytes context; /* untracked at the first sample */
	int sampled;
	bytes sample_total;
	uint64_t sample_free;

	struct spans spans;
	struct timeline *timeline;
	struct moment peak;        /* allocated */
	struct moment device_peak; /* reserved + other + untracked */
	bytes at_device_peak[OWNERS];
	struct timeline *owner_timeline; /* a curve an owner */
	int plot_due;                    /* the last sample is not on it yet */
	bytes reserved_peak;
	bytes imported, imported_peak; /* other processes' memory: in no total */
	bytes managed, managed_peak;   /* virtual until touched: in no total */
	struct snapshot at_peak;
	struct lives held_at_peak; /* its blocks, if asked for */

	struct failure *failures;
	size_t failure_count; /* kept */
	uint64_t failures_seen;
	uint64_t ooms_told; /* records of what the header's `ooms` counts */
	int last_failure_open; /* nothing was handed out since */

	bytes outlived; /* made by backward passes, and not freed by them */
	struct {
		bytes bytes;
		uint64_t blocks;
	} final; /* live at the end */
	struct mt_record *live; /* the final live set by address, if asked for */
	size_t live_count;
};

/* Host memory of the process. */
struct host {
	bytes pinned, pinned_peak, registered, registered_peak;
};

struct replay {
	struct device device[MT_MAX_DEVICES];
	struct host host;
	uint64_t host_events;
	uint64_t last_time_ns;
	uint64_t given_up;  /* records in gaps */
	unsigned open_gaps; /* gaps without a keyframe behind them */
	uint64_t unknown_kinds, damaged, unwritten;
	uint64_t without_device; /* the device could not be told when they were recorded */
	uint64_t frees_unknown, allocs_twice;
	int truncated; /* the file ended early while it was read */
};

struct replay_options {
	int keep_live, keep_peak_blocks;
	void (*progress)(void *context, double part); /* NULL: none */
	void *context;
};

void replay_trace(struct replay *r, const struct trace *t, const struct replay_options *options);
void replay_release(struct replay *r);

/* Did the job go on after this failure? See the rule at its definition. */
int failure_survived(const struct failure *f);

static inline bytes moment_device(const struct moment *m)
{
	return m->reserved + m->other + m->untracked;
}

#endif
