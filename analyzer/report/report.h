/*
 * The report on the traces of a job, ready to be written in any form; the traces are not needed any
 * more. The texts belong to the report. An unknown size is UNKNOWN_BYTES, not 0.
 */
#ifndef MEMTRACE_REPORT_H
#define MEMTRACE_REPORT_H

#include <stdint.h>

#include "attribution/category.h"
#include "attribution/phase.h"
#include "util/err.h"
#include "attribution/owner.h"
#include "util/buf.h"
#include "util/util.h"

struct diagnosis;
struct metrics;
struct texts;

#define UNKNOWN_BYTES INT64_MIN
#define NO_RANK (-1)

/* The rank that stands for a process where a number must: without one it is rank 0. */
static inline int rank_number(int rank)
{
	return rank < 0 ? 0 : rank;
}

#define REPORT_STEPS 1024
#define REPORT_SPANS 4096

enum end { END_UNKNOWN, END_EXIT, END_OOM, END_KILLED, END_RUNNING };
const char *end_name(enum end e);

/* The part of a job that the peaks of a device cover, if its trace begins after the job, or is a
 * moment of it: X(id, key, title, why they may be lower than the job's or NULL). */
#define PEAK_SCOPES(X)                                                                 \
	X(JOB, "job", "", NULL)                                                        \
	X(HISTORY, "history", "in the recorded history, whose beginning is missing",   \
	  "the recorded history lacks its beginning, where more may have been in use") \
	X(PROFILE, "profile", "while it was profiled", NULL)                           \
	X(MOMENT, "moment", "when the snapshot was taken",                             \
	  "the snapshot has no history, only what was live at its end")
enum peak_scope {
#define X(id, key, title, why) PEAK_OF_##id,
	PEAK_SCOPES(X)
#undef X
		PEAK_SCOPE_COUNT
};
const char *peak_scope_key(enum peak_scope s);
const char *peak_scope_title(enum peak_scope s);
const char *peak_scope_why_lower(enum peak_scope s);
/* PEAK_OF_JOB if there is no such key. */
enum peak_scope peak_scope_find(struct str key);

/* The live blocks of one stack and category. */
struct stack_row {
	char *stack;       /* "function file:line;…", the outermost frame first */
	char *label;       /* one frame, for people */
	char *backward_of; /* the line of the forward pass to which a block of the backward pass
			    * belongs; NULL: not known, or no such block */
	char *inner;       /* the innermost frame; "" if it is the label */
	char *module;      /* the classes of the called modules, "A.B.C", or "" */
	bytes bytes, smallest, largest;
	uint64_t blocks;
	enum category category; /* a stack with blocks of several categories has several rows */
};

struct stacks {
	struct stack_row *rows; /* largest first */
	size_t count, left_out; /* left_out: smaller ones that a record does not have */
	bytes bytes;
	uint64_t blocks;
};

/* A phase that the job named. */
struct named_row {
	const char *name;
	const struct named_row *within; /* NULL: in none */
	uint64_t times;
	double first_s;
	bytes peak; /* most allocated while it was open */
};
#define NAMED_DEPTH 64 /* names of a path that are shown */

/* A moment that the job named, with the level then and the most since the one before. */
struct moment_row {
	const char *name;
	double time_s;
	bytes allocated, peak;
};

/* A point in time. */
struct point {
	int unrecorded; /* only the running counters know its bytes; the trace lacks the moment */
	double time_s;
	bytes allocated, reserved, other, untracked;
	uint32_t step;                 /* 0 unknown */
	const char *phase;             /* of phase.def */
	const char *part;              /* of the phase, or NULL */
	char *thread;                  /* its name, or NULL */
	const struct named_row *named; /* the innermost phase that the job named; NULL: none */
	/* Adds up to `allocated`; of the peak and of failures only. */
	bytes by_category[CATEGORIES];
};

/* A training step. */
struct step_row {
	uint32_t step;
	enum phase peak_phase;
	unsigned forwards, backwards; /* passes: one each for a micro-batch */
	double start_s, end_s;
	bytes floor, peak;      /* least and most allocated */
	bytes reserved, device; /* at its end; that of the device may be unknown */
};

/* A phase of the job, from `start_s` to the start of the next row. */
struct span_row {
	double start_s;
	const char *phase;
	uint32_t step; /* 0 unknown */
};

/* The peak of a phase. */
struct phase_row {
	const char *phase;
	bytes peak;
	double time_s;
	uint32_t step;
};

enum survival { SURVIVED_NO, SURVIVED_YES, SURVIVED_UNKNOWN };

struct oom {
	struct point when;
	char *by;    /* the library whose request failed; NULL: PyTorch's allocator */
	char *place; /* the label of its stack; NULL: not known */
	/* Of the request, of the segment that PyTorch asked the device for, of the device and of
	 * the cache. All but the first may be unknown. */
	bytes requested, segment, free, largest_free;
	int in_convolution; /* a layer of PyTorch's asked, for itself or for cuDNN */
	enum survival survived;
	bytes by_owner[OWNERS]; /* adds up to the memory in use on the device, if that is known */
	struct stacks stacks;   /* the largest of the live blocks */
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
	bytes allocated, reserved, device; /* the last may be unknown */
};

/* An owner of device memory. */
struct owner_row {
	const char *key, *title;
	int is_always_listed; /* even with 0 bytes */
	bytes peak, at_peak;  /* its own peak; its bytes at the peak of the device */
	bytes *curve;         /* over time: owner_points values */
};

/* A communicator of NCCL. */
struct comm_row {
	int64_t id, parent; /* the sequence numbers of their COMM_INIT; -1: unknown, or none */
	int size, rank;     /* NO_RANK unknown */
	bytes bytes, used;  /* its device memory; the part that its first uses took */
	double created_s, destroyed_s;
	int destroyed;
};

struct version {
	char *name, *text;
};

/* One device of one process. */
struct rank {
	char *trace;
	int rank, local_rank, world_size, restart_count; /* NO_RANK: unknown */
	int device;
	uint32_t pid;
	char *host, *run_id, *command, *gpu; /* the last two may be NULL: unknown */
	char *gpu_uuid, *gpu_pci; /* NULL: unknown; simulated GPUs have the same on every node */
	int node;                 /* index among the nodes of the job; NO_RANK: unknown */
	char *coordinates;        /* "pp 1, tp 3": of the rank in the job's layout; NULL unknown */
	struct version *versions;
	size_t version_count;
	int simulated;
	int imported; /* from another tool's file, which does not tell the end nor what is outside
		       * PyTorch's allocator: no peak of the device, no owners */
	int64_t start_realtime_ns;
	double duration_s;
	enum end end;
	int ended, exit_status;   /* the trace has an end record, with this status */
	int counted_from_runtime; /* counted from cudaMallocAsync, not from the allocator */
	bytes total;              /* memory of the device; may be unknown */
	uint64_t events, tensor_allocs, tensor_frees;

	enum peak_scope peak_of;
	struct point peak; /* of allocated */
	struct point device_peak;
	/* At different times. That of the device may be unknown, and so are its owners then. */
	bytes peak_allocated, peak_reserved, peak_device;
	struct owner_row
		*owners; /* their at_peak adds up to peak_device; in the order of owner.def */
	size_t owner_count, owner_points;
	/* Another tool's file does not tell these, but for the pinned memory of some. */
	bytes managed_peak;  /* managed memory, virtual until it is used: in no total */
	bytes imported_peak; /* memory of other processes: in no total */
	bytes host_pinned_peak, host_registered_peak; /* of the process */
	struct comm_row *comms;
	size_t comm_count;
	uint64_t comms_seen;    /* at least comm_count: not all are kept */
	struct stacks stacks;   /* at the peak */
	struct step_row *steps; /* the first REPORT_STEPS */
	size_t step_count;
	/* A record leaves out `steps_left_out` steps behind the first `steps_before_gap` rows. */
	size_t steps_left_out, steps_before_gap;
	struct span_row *spans; /* the first REPORT_SPANS */
	size_t span_count;
	struct phase_row *phases; /* those of the trace, in the order of phase.def */
	size_t phase_count;

	struct named_row *named; /* each behind the phase it is within */
	size_t named_count;
	struct moment_row *moments;
	size_t moment_count;
	uint64_t named_left_out; /* phases and moments beyond what is kept */
	int steps_marked;        /* the job said itself where its steps begin */
	char *asked_phase; /* peaks and failures are those while this phase was open; NULL: of the
			      job */

	struct oom *ooms;
	size_t oom_count;
	uint64_t ooms_seen; /* at least oom_count: not all are kept */

	bytes final_bytes, final_reserved;
	uint64_t final_blocks;
	struct live_row *live; /* blocks that are live at the end, if has_live */
	size_t live_count;
	int has_live;

	struct peak_block *peak_blocks; /* with replay_options.keep_peak_blocks */
	size_t peak_block_count;

	struct timeline_row *timeline;
	size_t timeline_count;

	uint64_t lost_events, lost_stacks;
	const char *lost_reason;
	char **warnings;
	size_t warning_count, warning_room;

	struct metrics *metrics; /* NULL: the device was not used */
	/* Labels of the stacks that the metrics name, or NULL. */
	char *leak_label, *left_label, *repeat_label, *pinned_label, *evaluated_label, *huge_label,
		*data_label, *setup_label, *hooked_label;

	struct texts
		*texts; /* of the report, with the texts of the stacks; NULL: they are its own */
	char **pool;    /* the texts above that are not released one by one */
	size_t pool_count, pool_room;
	char **live_pool; /* the stacks of `live` */
	size_t live_pool_count, live_pool_room;
};

/* The memory that the rank which is shown in detail needed on a device that is large enough. */
struct measured_need {
	bytes allocated, device;
	int steps;
	int is_least;          /* that device was too small too */
	const char *directory; /* of its traces */
	/* Of the rank of `allocated` there, at its peak, by which savings are told; NULL: that
	 * device was too small too. To be freed. */
	struct metrics *metrics;
};

struct ranks;

struct report {
	struct rank *ranks; /* by rank, device, pid */
	size_t count, room;
	struct texts *texts;  /* that the ranks share, or NULL */
	struct ranks *as_job; /* the ranks as one job (rank_groups.h); NULL: not of one job */
	const struct diagnosis *diagnosis; /* owned by the caller; NULL: not diagnosed */
	const struct measured_need *need;  /* owned by the caller; NULL: not measured */
	const char *declared;   /* a TRACE argument for match that declares its model, or NULL */
	const char *run;        /* the run of their directories that was asked for, or NULL */
	char *const *arguments; /* the TRACE arguments that it is made of; of a directory with one
				 * trace, the trace */
	size_t argument_count;
};

void report_sort(struct report *r);
void report_release(struct report *r);
/* Leaves at most `points` rows of a curve: the highest levels of as many parts of the time. Returns
 * how many are left. */
size_t timeline_reduce(struct timeline_row *rows, size_t count, size_t points);
/* Releases the smaller stacks, the curves of owners and all but `points` rows of the curve: only a
 * rank that is shown in detail needs them. */
void rank_reduce(struct rank *r, size_t stacks, size_t points);
/* Moves the texts of the stacks to those of the report in which the rank will be. */
void rank_share_texts(struct rank *r, struct texts *texts);

/* The rank to show in detail: the first that ran out of memory, else the one with the highest share
 * of its device's memory. */
const struct rank *report_worst(const struct report *r);
/* Is `a` shown rather than `b`, once the ranks are sorted? */
int rank_is_shown_before(const struct rank *a, const struct rank *b);
/* Did two ranks use one GPU, or one instance of it, at the same time? Two processes of one rank do
 * not count. */
int rank_shares_gpu(const struct rank *a, const struct rank *b);
/* Do two ranks of a host have one ordinal for two GPUs, since each sees only its own? */
int report_ordinals_differ(const struct report *r);
/* "outer / inner", in the order in which they began. */
void named_add_path(const struct named_row *row, struct buf *out);
/* The failed allocation that ended the process, or the last one, or NULL. */
const struct oom *rank_oom(const struct rank *r);
/* Did the last one end the process, as far as is known? */
int rank_died(const struct rank *r);
/* Why it is not known that a failed request ended a process for which rank_died() is true; NULL: it
 * did. */
const char *rank_why_unknown_death(const struct rank *r);
/* The most of its device's memory that the process is known to have held. */
bytes rank_held(const struct rank *r);

#endif
