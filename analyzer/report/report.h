/*
 * What `memtrace report` says, ready to be written in any form: no trace is needed any more. Texts
 * belong to the report. Unknown is not zero: sizes that are not known are UNKNOWN_BYTES.
 */
#ifndef MEMTRACE_REPORT_H
#define MEMTRACE_REPORT_H

#include <stdint.h>

#include "attribution/category.h"
#include "util/err.h"
#include "attribution/owner.h"
#include "util/util.h"

struct diagnosis;
struct metrics;

#define UNKNOWN_BYTES INT64_MIN
#define NO_RANK (-1)
#define REPORT_STEPS 1024
#define REPORT_SPANS 4096

enum end { END_UNKNOWN, END_EXIT, END_OOM, END_KILLED, END_RUNNING };
const char *end_name(enum end e);

/* Live blocks of one stack. */
struct stack_row {
	char *stack; /* "function file:line;…", outermost first */
	char *label; /* one frame, clean */
	char *inner; /* the innermost frame, if that is another one; else "" */
	char *module; /* the classes of the modules that were called, "A.B.C"; else "" */
	bytes bytes, smallest, largest;
	uint64_t blocks;
	enum category category; /* a stack with blocks of several categories is several rows */
};

struct stacks {
	struct stack_row *rows; /* largest first */
	size_t count;
	bytes bytes;
	uint64_t blocks;
};

/* A point in time. */
struct point {
	int unrecorded; /* its bytes are known from the running counters, the moment is not */
	double time_s;
	bytes allocated, reserved, other, untracked;
	uint32_t step; /* 0 unknown */
	const char *phase; /* of phase.def */
	const char *part;  /* of the phase; NULL none */
	char *thread;      /* NULL unknown */
	/* What was allocated, all of it; of the peak and of failures. */
	bytes by_category[CATEGORIES];
};

/* A training step. */
struct step_row {
	uint32_t step;
	double start_s, end_s;
	bytes floor, peak;      /* least and most allocated */
	bytes reserved, device; /* at its end */
	const char *peak_phase;
	unsigned forwards, backwards; /* micro-batches that were seen */
};

/* From `start_s` on, up to the next one, the job was in this phase. */
struct span_row {
	double start_s;
	const char *phase;
	uint32_t step; /* 0 unknown */
};

/* The most that was allocated in a phase. */
struct phase_row {
	const char *phase;
	bytes peak;
	double time_s;
	uint32_t step;
};

struct oom {
	struct point when;
	char *by; /* the module whose call was refused; NULL: PyTorch's allocator */
	bytes requested, free, largest_free; /* the latter two may be unknown */
	int survived;
	bytes by_owner[OWNERS]; /* of what the device had in use */
	struct stacks stacks;   /* the largest */
};

struct live_row {
	uint64_t address;
	bytes bytes;
	const char *stack;
};

/* A block that was live at the peak. */
struct peak_block {
	bytes bytes;
	enum category category;
	const char *stack;
};

struct timeline_row {
	double time_s;
	bytes allocated, reserved, device;
};

/* Who holds device memory. */
struct owner_row {
	const char *key, *title;
	int is_always_listed; /* even with nothing */
	bytes peak, at_peak;  /* its own maximum; when the device's was */
	bytes *curve;         /* over time, `owner_points` of the rank */
};

/* A communicator of NCCL's. */
struct comm_row {
	int64_t id, parent; /* the sequence of its COMM_INIT; -1 unknown, or none */
	int size, rank;     /* NO_RANK unknown */
	bytes bytes, used;  /* that it took on the device; of them those that its use took */
	double created_s, destroyed_s;
	int destroyed;
};

struct version {
	char *name, *text;
};

/* One process on one device. */
struct rank {
	char *trace;
	int rank, local_rank, world_size, restart_count; /* NO_RANK: none */
	int device;
	uint32_t pid;
	char *host, *run_id, *command, *gpu; /* command and gpu: NULL unknown */
	char *gpu_uuid, *gpu_pci; /* NULL unknown; of a simulated one the same on every node */
	int node; /* of the job, as its launcher counts; NO_RANK unknown */
	char *coordinates; /* "pp 1, tp 3": of the rank in the job's layout; NULL unknown */
	struct version *versions;
	size_t version_count;
	int simulated;
	int64_t start_realtime_ns;
	double duration_s;
	enum end end;
	int ended, exit_status; /* there is an end record */
	int counted_from_runtime;           /* counted from cudaMallocAsync, not from the allocator */
	bytes total;            /* the device's, or unknown */
	uint64_t events, tensor_allocs, tensor_frees;

	struct point peak; /* of what tensors hold */
	struct point device_peak;
	bytes peak_allocated, peak_reserved, peak_device; /* each its own maximum */
	struct owner_row *owners; /* add up to peak_device; in the order of owners.def */
	size_t owner_count, owner_points;
	bytes managed_peak;                           /* virtual until touched: in no total */
	bytes imported_peak;                          /* from other processes: in no total */
	bytes host_pinned_peak, host_registered_peak; /* the process's */
	struct comm_row *comms;
	size_t comm_count;
	uint64_t comms_seen;  /* there may be more than are kept */
	struct stacks stacks; /* at the peak */
	struct step_row *steps; /* the first REPORT_STEPS */
	size_t step_count;
	struct span_row *spans; /* the first REPORT_SPANS */
	size_t span_count;
	struct phase_row *phases; /* those that were seen, in the order of phase.def */
	size_t phase_count;

	struct oom *ooms;
	size_t oom_count;
	uint64_t ooms_seen; /* there may be more than are kept */

	bytes final_bytes, final_reserved;
	uint64_t final_blocks;
	struct live_row *live; /* if asked for */
	size_t live_count;
	int has_live;

	struct peak_block *peak_blocks; /* if asked for */
	size_t peak_block_count;

	struct timeline_row *timeline;
	size_t timeline_count;

	uint64_t lost_events, lost_stacks;
	const char *lost_reason;
	char **warnings;
	size_t warning_count, warning_room;

	struct metrics *metrics; /* what rules ask; NULL: nothing was measured */
	char *leak_label, *repeat_label; /* the stacks they name; NULL none */

	char **pool; /* other texts */
	size_t pool_count, pool_room;
	char **live_pool; /* the stacks of `live` */
	size_t live_pool_count, live_pool_room;
};

struct ranks;

struct report {
	struct rank *ranks; /* by rank, device, pid */
	size_t count, room;
	struct ranks *as_job; /* what they are to each other (ranks.h); NULL: not of one job */
	const struct diagnosis *diagnosis; /* of the caller, who sets and releases it; NULL: the report is not diagnosed */
	const char *declared; /* TRACE argument whose own configuration match can take; or NULL */
};

void report_sort(struct report *r);
void report_release(struct report *r);
/* Gives up what only a rank that is shown in detail needs: its smaller stacks and its curves. */
void rank_reduce(struct rank *r, size_t stacks);

/* The rank to show in detail: one that ran out of memory first, else the one that filled most of
 * its device. */
const struct rank *report_worst(const struct report *r);
/* Do two ranks sit on one GPU (or instance of it) at one time? Not two processes of one rank. */
int rank_shares_gpu(const struct rank *a, const struct rank *b);
/* Do two ranks of a host call two GPUs by one ordinal, as where each sees but its own? */
int report_ordinals_differ(const struct report *r);
/* The failure that ended it, or the last one; NULL if there was none. */
const struct oom *rank_oom(const struct rank *r);

#endif
