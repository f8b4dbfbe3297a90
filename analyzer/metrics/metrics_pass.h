/* The state of the pass over a trace that computes the metrics: levels of each step, counterfactual
 * peaks, and the blocks that are live at the moment. */
#ifndef MEMTRACE_METRICS_PASS_H
#define MEMTRACE_METRICS_PASS_H

#include "attribution/attribution.h"
#include "attribution/evaluation_names.h"
#include "attribution/workspace.h"
#include "metrics/metrics.h"
#include "replay/grad_modes.h"
#include "replay/live_set.h"
#include "replay/replay.h"
#include "trace/event.h"
#include "trace/trace.h"
#include "trace/visit.h"

#define METRICS_MAX_STEPS 65536 /* more steps are dropped: memory must not grow with the job */
#define METRICS_MIN_BLOCK (INT64_C(64) << 10) /* smaller blocks count in `allocated` alone */
#define METRICS_MAX_CALLERS 64
#define METRICS_RECENT 4

/* A counterfactual peak leaves out one kind of blocks. A block may be of several kinds. */
enum counterfactual {
	WITHOUT_LOGITS,
	WITHOUT_ATTENTION,
	WITHOUT_TEMPORARIES, /* of the optimizer */
	WITHOUT_CLIPPING,
	WITHOUT_LOADED,
	WITHOUT_SAVING,
	WITHOUT_NEW_RUN,
	WITHOUT_OLD_GRADIENTS,
	WITHOUT_HUGE,
	WITHOUT_OWN_LOGITS,  /* the outputs of a head, and all blocks out of proportion */
	WITHOUT_TEACHER,     /* by the names of classes and functions */
	WITHOUT_ROLLOUT,     /* by such names, or by the source of the job */
	WITHOUT_UNOPTIMIZED, /* by the preload's records, or by the source of the job, as the next
				one */
	WITHOUT_GENERATED,
	COUNTERFACTUALS
};

/* The tag of a live block; it replaces the time in the record of the live set. */
struct block_tag {
	uint32_t run : 28;  /* begins with the forward pass after a backward or optimizer step */
	uint32_t nodes : 2; /* enum made_nodes, of the thread that made it */
	uint32_t is_optimized : 1; /* an optimizer has it as a parameter */
	uint32_t is_unowned : 1;   /* a graph needs its gradient, and no optimizer has it */
	uint16_t step;             /* the last 16 bits of its number */
	uint16_t removed_by : 15;  /* bits of enum counterfactual */
	uint16_t before_calls : 1; /* the model had not been called yet */
};
static_assert(COUNTERFACTUALS <= 15, "the tag has a bit for each");
static_assert(sizeof(struct block_tag) == sizeof(uint64_t), "the tag replaces the time");

struct step_levels {
	bytes floor, peak;     /* least and most allocated */
	bytes pass_peak;       /* most allocated outside of the optimizer's step, and of the next */
	bytes optimizer_peak;  /* most allocated in it */
	bytes evaluation_peak; /* most allocated in an evaluation behind the optimizer's step */
	bytes reserved, outside; /* at its end */
	uint32_t retries, calls; /* of the allocator: retries; segments allocated or freed */
	bytes emptied;           /* segments that empty_cache() had freed before one was bought */
	bytes pinned;            /* host memory of the process, at its end */
};

/* The blocks of one stack. */
struct stack_levels {
	uint32_t named_run; /* from 1: the run in which its functions' names were noted */
	uint32_t last_step; /* the last step with an allocation, from 1; 0: none */
	bytes now, before;  /* largest block in the last step, and in the steps before */
	bytes live, held, held_before;    /* live bytes: now, most in the last step, most before */
	uint32_t run;                     /* the last run that no backward pass follows */
	uint32_t growths;                 /* blocks of that run, each larger than the one before */
	bytes top;                        /* the last of them; INT64_MAX: a block was not larger */
	bytes first;                      /* the first block */
	uint32_t blocks;                  /* blocks until the moment */
	bytes tallest;                    /* the largest of them */
	uint32_t freed;                   /* blocks that were freed until the moment */
	uint32_t dropped;                 /* of those, blocks of the run that went on then */
	uint32_t outlived;                /* of those, blocks of an earlier step */
	uint32_t half_stack, first_stack; /* of the latest, see struct recent_block */
	/* Steps with a block; of them, those with a larger one than all steps before, while one of
	 * them is live. */
	uint32_t steps, rises;
	/* Blocks larger than all before, while one of them is live; blocks smaller than that; of
	 * these, blocks of less than an eighth, which are no smaller ones of the same kind. */
	uint32_t block_rises, block_falls, block_others;
	bytes grown_first;    /* the first of the kind of the largest block */
	bytes widened;        /* of blocks right after which one of half the size was freed */
	bytes widened_before; /* of those, before the first call of the model */
	bytes widened_last;   /* the last of those */
	int widens_sizes;     /* they have several sizes */
};

struct recent_block {
	uint32_t stack;
	uint32_t half_stack;  /* of the block of half the size that it follows; 0: none */
	uint32_t first_stack; /* of the first of the blocks of its size, one behind the other */
	bytes size;
};

struct callers {
	uint32_t list[METRICS_MAX_CALLERS];
	size_t count;
};

static inline int callers_has(const struct callers *c, uint32_t caller)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->list[i] == caller)
			return 1;
	return 0;
}

static inline void callers_add(struct callers *c, uint32_t caller)
{
	if (!callers_has(c, caller) && c->count < METRICS_MAX_CALLERS)
		c->list[c->count++] = caller;
}

/* Blocks that were made one after another, each in the place of one that was freed right then. */
struct conversions {
	bytes latest;        /* the latest block, if none was freed since; else 0 */
	uint32_t all, twice; /* of the present row: blocks, and those of twice the size */
	bytes now, most;     /* bytes of the latter: of the present row, and of the largest one */
};

struct device_pass {
	const struct device *device;
	struct metrics *m;
	struct moment moment;
	const struct failure *failure; /* NULL: the moment is the peak */
	int is_past;                   /* the pass is behind the moment */

	uint64_t next_span_ns; /* start of the next span; 0: before the first record */
	size_t span;           /* index of the current span of the device */
	uint32_t run, step;    /* from 0 */
	enum phase phase;
	int is_past_forward; /* the phase is that of the backward pass or of the optimizer */
	int backward_seen, run_is_open;
	int called;           /* a model was called, in training or not */
	int called_untrained; /* a model was called, and not in training */
	uint32_t step_run;    /* the run with which the step began */
	/* On the stacks of the latest calls of the model from one line, and of those that a
	 * backward pass followed. */
	struct evaluation_names pending_names, trained_names;
	struct callers trained; /* callers of the model that a backward pass followed */
	struct callers pending; /* callers of the model in the current run */
	int run_is_new;         /* the model is called, and by none of `trained` */

	bytes allocated, reserved, outside;
	const bytes *pinned;          /* the process's pinned host memory */
	bytes peak_before;            /* the highest peak of the steps before the moment */
	bytes trained_peak;           /* the highest one until then, outside of evaluation */
	bytes level[COUNTERFACTUALS]; /* live bytes of each kind */
	bytes best[COUNTERFACTUALS];  /* counterfactual peaks */
	/* The counterfactual peaks before the optimizer's first step. Later steps reach them with
	 * its states, `later_states`, beside them; 0: their size is unknown. */
	bytes best_first[COUNTERFACTUALS], later_states;
	int optimizer_seen;
	bytes limit; /* a lower bound: `allocated` below it changes none of these peaks */
	int rising;  /* `allocated` has risen since the peaks were updated */
	bytes run_born, autograd_live;
	int retry_pending; /* a request failed, and the allocator has not answered yet */
	bytes given_back;  /* segments that empty_cache() freed, since the last one was bought */

	struct step_levels *list, now; /* finished steps; the current step */
	size_t count, room;
	struct stack_levels *stacks; /* by stack */
	/* Calls of batch_norm() that computed statistics, and those that used the running ones;
	 * the latest block is of such a call. */
	uint32_t norms_trained, norms_evaluated;
	int after_norm;
	struct conversions converted;
	bytes latest; /* the latest block, if none was freed since; else 0 */
	uint32_t latest_stack;
	uint32_t normed_stack;                      /* of the block before the latest batch norm */
	struct recent_block recent[METRICS_RECENT]; /* the newest blocks with a stack: a ring */
	uint32_t recent_count;

	/* Sizes of blocks at the moment, see metrics_sizes.h; 0: none. */
	bytes logits, scores, linear;
	bytes huge; /* blocks of at least a quarter of this size are out of proportion; 0: none */
	int logits_half, logits_twice; /* blocks of half or twice that size are logits too */
	int logits_are_huge;           /* the blocks that are out of proportion are the logits */
};

struct metrics_pass {
	const struct trace *trace;
	const struct tables *tables;
	int measures_need;    /* see metrics_compute() */
	stack_tags *tags;     /* bits of enum stack_tag, by stack */
	uint16_t *removed_by; /* bits of enum counterfactual that a stack decides, by stack */
	struct workspace_sizes workspaces;
	struct live_set live;
	struct grad_modes grad_modes;
	unsigned parameter_events; /* 1 << enum mt_parameter of those until now */
	int optimized_elsewhere;   /* an optimizer got one that is not on the device */
	struct device_pass devices[MT_MAX_DEVICES];
	/* Pinned host memory of the process: all, blocks of a power of two, NCCL's and its peak. */
	bytes pinned, pinned_powers, nccl_pinned, nccl_pinned_peak;
	bytes pinned_live, *pinned_by_stack; /* pinned now: all, and by stack */
};

/* The bits of enum stack_tag of a stack; 0 if the trace has no such stack. */
static inline stack_tags tags_at(const struct metrics_pass *p, uint32_t stack)
{
	return stack < p->tables->stack_count ? p->tags[stack] : 0;
}

/* Was it made in a model by operations whose nodes lead to no parameter that an optimizer has? */
static inline int metrics_is_needless(const struct metrics_pass *p, unsigned nodes, uint32_t stack)
{
	return nodes == NODES_NEEDLESS && tags_at(p, stack) & TAGGED(MODEL);
}

static inline struct block_tag tag_of(const struct mt_record *r)
{
	union {
		uint64_t time;
		struct block_tag tag;
	} u = { .time = r->time_ns };

	return u.tag;
}

static inline void add(bytes *to, bytes n)
{
	*to = bytes_add(*to, n);
}

#endif
