/* One device of a replayed trace: levels, peaks, steps, failures and live blocks. */
#ifndef MEMTRACE_DEVICE_H
#define MEMTRACE_DEVICE_H

#include "backward/backward.h"
#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "inference/cache_calls.h"
#include "replay/communicators.h"
#include "replay/owner_usage.h"
#include "replay/snapshot.h"
#include "replay/timeline.h"

#define REPLAY_MAX_OOMS 128 /* failures that are kept: the first ones and the last */

/* A point of the trace: behind `record` records of a segment (0: behind its keyframe). */
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
	uint32_t step;             /* 0: not known */
	unsigned char phase, part; /* enum phase, enum phase_part */
	uint32_t named_phase;      /* the innermost one (replay/marks.h); 0: none is open */
};

struct failure {
	struct moment when;
	int from_runtime; /* the CUDA runtime refused, and PyTorch's allocator reported nothing */
	int is_outside;   /* as in struct device */
	uint32_t stack;
	bytes requested;
	bytes segment;         /* that PyTorch's allocator asked the device for; 0: not known */
	uint64_t free;         /* bytes free on the device; MT_UNKNOWN */
	bytes largest_free;    /* the largest free block of the cache; -1: not known */
	uint64_t later_allocs; /* blocks allocated after it, up to the next failure */
	int trained;           /* a forward and a backward pass came later */
	bytes later_bytes;
	bytes owners[OWNERS]; /* bytes of the device that each owner held, by recorded calls */
	struct snapshot live; /* the live blocks */
};

struct device {
	int seen; /* the trace has records of it */
	/* The caching allocator reported nothing (backend:cudaMallocAsync,
	 * PYTORCH_NO_CUDA_MEMORY_CACHING), so PyTorch's own cudaMallocAsync and cudaMalloc calls
	 * count as its blocks. */
	int counted_from_runtime;
	uint64_t tensor_allocs, tensor_frees, other_events, pytorch_allocs, reserved_levels;
	bytes total; /* the device's size; 0: not known */

	struct moment now; /* first pass: the current one; afterwards the last one */
	struct owner_usage usage;
	struct communicators comms;
	bytes context; /* untracked bytes at the first sample */
	int sampled;   /* there was a sample */
	bytes sample_total;
	uint64_t sample_free;

	bytes since_mark; /* most allocated bytes since the last event of the layer MARK */
	int is_outside;   /* of the phase whose peak is wanted */

	struct spans spans;
	struct timeline *timeline; /* enum curve */
	struct moment peak;        /* of `allocated` */
	struct moment device_peak; /* of moment_device() */
	bytes owners_at_device_peak[OWNERS];
	struct timeline *owner_timeline; /* a curve for each owner */
	int plot_due;                    /* the last sample is not in owner_timeline yet */
	bytes reserved_peak;
	bytes imported, imported_peak; /* other processes' memory: in no total */
	bytes managed, managed_peak;   /* virtual until touched: in no total */
	struct backward backward;      /* names of the backward pass's blocks */
	struct snapshot at_peak;
	struct cache_growth cache;    /* in inference */
	struct lifetimes peak_blocks; /* live at the peak; only with keep_peak_blocks */

	struct failure *failures;
	size_t failure_count; /* that are kept */
	uint64_t failures_seen;
	uint64_t oom_records;  /* records of the failures that the header's `ooms` counts */
	int last_failure_open; /* nothing was allocated since the last failure */
	/* The last segment that PyTorch's allocator was refused, and the blocks before it. */
	bytes refused;
	uint64_t refused_allocs;
	int ran_out; /* the last failure of any phase was not survived */
	uint64_t ran_out_ns;

	bytes outlived; /* allocated by backward passes and not freed by them */
	struct {
		bytes bytes;
		uint64_t blocks;
	} final;                /* live at the end of the trace */
	struct mt_record *live; /* those blocks by address; only with keep_live */
	size_t live_count;
};

/* Bytes of the device that are in use: reserved, other and untracked ones. */
static inline bytes moment_device(const struct moment *m)
{
	return m->reserved + m->other + m->untracked;
}

/* The events of the device. */
static inline uint64_t device_events(const struct device *d)
{
	return d->tensor_allocs + d->tensor_frees + d->other_events;
}

/*
 * Did the job go on after this failure? Also a job that ends still allocates a little, to print, to
 * clean up or to save. It went on if PyTorch allocated, after the failure, at least the requested
 * bytes in total and more than 1000 blocks.
 */
int failure_survived(const struct failure *f);

/* The time of the failure that ended the job, if it was before `end_ns`: what frees a block later
 * is the end of the job. */
uint64_t device_end_of_job(const struct device *d, uint64_t end_ns);

void device_release(struct device *d);

#endif
