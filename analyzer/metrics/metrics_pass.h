/* The third walk's state, and what its parts share. */
#ifndef MEMTRACE_METRICS_PASS_H
#define MEMTRACE_METRICS_PASS_H

#include "attribution/attribution.h"
#include "attribution/workspace.h"
#include "metrics/metrics.h"
#include "replay/live_set.h"
#include "replay/replay.h"
#include "trace/event.h"
#include "trace/trace.h"
#include "trace/visit.h"

#define METRICS_MAX_STEPS 65536 /* that are kept: memory must not follow the length of a job */
#define METRICS_MIN_BLOCK (INT64_C(64) << 10) /* smaller blocks are no cause of anything */

#define METRICS_MAX_CALLERS 64

/* What a counterfactual takes away; a block may belong to several. */
enum counterfactual {
	WITHOUT_LOGITS,
	WITHOUT_ATTENTION,
	WITHOUT_TEMPORARIES, /* of the optimizer */
	WITHOUT_CLIPPING,
	WITHOUT_LOADED,
	WITHOUT_SAVING,
	WITHOUT_NEW_RUN,
	WITHOUT_OLD_GRADIENTS,
	COUNTERFACTUALS
};

/* What is remembered with a live block, in the record's time. */
struct block_tag {
	uint32_t run; /* runs begin with the forward after a backward pass or an optimizer's step */
	uint16_t step;  /* the last 16 bits of its number */
	uint16_t removed_by; /* a bit each of enum counterfactual */
};
static_assert(sizeof(struct block_tag) == sizeof(uint64_t), "it stands for the time");

struct step_levels {
	bytes floor, peak, reserved, outside;
	uint32_t retries, calls;
	bytes emptied;
};

/* What one stack did. */
struct stack_levels {
	uint32_t last_step;
	bytes now, before;              /* largest block in its last step; and in those before */
	bytes live, held, held_before; /* live now; the same of what was live at a time */
	/* In its last run that no backward pass follows: blocks, each larger than the last. */
	uint32_t run, growths;
	bytes top; /* the last of them; INT64_MAX: one was not larger */
};

struct callers {
	uint32_t list[METRICS_MAX_CALLERS];
	size_t count;
};

struct device_pass {
	const struct device *device;
	struct metrics *m;
	struct moment moment;
	const struct failure *failure; /* NULL: the moment is the peak */
	int is_past;                   /* the moment has been */

	uint64_t next_span_ns;
	bytes least_best;   /* of best[] */
	size_t span;        /* of the device's, the current one */
	uint32_t run, step; /* steps begin with 0 here */
	int backward_seen, run_is_open;
	struct callers trained,
		pending; /* of the model: those that a backward pass followed; the run's */
	int run_is_new;  /* the model is called from where no backward pass followed so far */
	enum phase phase;

	bytes allocated, reserved, outside;
	bytes peak_before;                     /* the highest of the steps before the moment's */
	bytes level[COUNTERFACTUALS], best[COUNTERFACTUALS]; /* taken away now; most that would be left */
	int rising;
	bytes run_born, autograd_live;
	int retry_pending;

	struct step_levels *list, now;
	size_t count, room;
	struct stack_levels *stacks;

	/* The sizes that stand out at the moment; 0 none. */
	bytes logits, scores, linear;
	int logits_half, logits_twice; /* are blocks of that size logits too? */
};

struct metrics_pass {
	const struct trace *trace;
	const struct tables *tables;
	uint64_t *tags; /* of stacks */
	struct workspace_sizes workspaces;
	struct live_set live;
	struct device_pass devices[MT_MAX_DEVICES];
	/* Host memory of the process: all that was ever pinned, of it in blocks of a power of two,
	 * and NCCL's. */
	bytes pinned, pinned_powers, nccl_pinned, nccl_pinned_peak;
};

static inline struct block_tag tag_of(const struct mt_record *r)
{
	union {
		uint64_t time;
		struct block_tag tag;
	} u = { .time = r->time_ns };

	return u.tag;
}

/* Is `a` the size `b`, up to the allocator's rounding? */
static inline int same_size(bytes a, bytes b)
{
	bytes d = a > b ? a - b : b - a;

	return b > 0 && d <= b / 50;
}

/* One of 4, 2, 1, 1/2, 1/4 of it? */
static inline int is_kin(bytes a, bytes b)
{
	return same_size(a, b) || same_size(a, b / 2) || same_size(a, 2 * b);
}

/* The sizes that stand out among what is live at the moment, and in what was asked for. */
void metrics_find_sizes(struct device_pass *d, struct metrics_pass *p, const struct snapshot *s);
int metrics_is_logits(const struct device_pass *d, uint64_t tags, bytes size);
int metrics_is_score(const struct device_pass *d, uint64_t tags, int autograd, bytes size);

/* A block that is live at the moment, for sorting. */
struct surviving_block {
	uint32_t stack;
	uint16_t thread;
	uint16_t age; /* steps ago */
	int in_run;
	bytes size;
};

static inline void add(bytes *to, bytes n)
{
	*to = bytes_add(*to, n);
}

/* Of all blocks that are live. Sorts them. */
void metrics_find_leaks(struct device_pass *d, struct surviving_block *left, size_t count);
/* The live set at the moment. */
void metrics_at_moment(const struct metrics_pass *p, unsigned device);
/* What the steps say, when all is read. */
void metrics_from_steps(struct device_pass *d);

#endif
