/* DeepSpeed's ZeRO-3: parameters in pieces, gathered around each module (zero3_gather.c), gradients
 * reduced by buckets, and the step by sub-groups (zero3.c). */
#ifndef MEMTRACE_ZERO3_H
#define MEMTRACE_ZERO3_H

#include "torch/optimizer.h"

#define COMPUTE_STREAM 0

/* ds_status and what else the coordinator knows of a parameter. */
struct sharded_param {
	enum { IN_PIECES, IN_FLIGHT, AVAILABLE } status;
	struct param *beside;        /* the module's other one: its bias */
	struct param_gather *gather; /* while in flight */
	tensor staged;               /* the piece, copied from the host's memory */
	tensor views;                /* the storage of what views it as it is gathered now */
	int active;                  /* a module runs with it */
	int persists;
	int64_t piece; /* elements of a rank */
	int64_t *uses; /* the visits that need it */
	size_t use_count, use_room, next_use;
	int64_t last_used; /* by the prefetcher's count: a step, -1 none */
};

/* A module's run: what it needs. */
struct module_run {
	struct param *params[2];
};

struct sub_group {
	int64_t elements;
	size_t first, end; /* of its parameters */
	tensor master;
	struct flat_optimizer *optimizer;
};

struct zero3 {
	const struct hparams *hparams;
	struct module *module;
	int gather_stream, partition_stream; /* the computation's own without overlap */
	int64_t pieces;                      /* elements of all */
	tensor flat, bucket, gradients;
	struct sub_group *groups;
	size_t group_count;
	/* the coordinator */
	enum { INVALID, RECORDING, COMPLETE } trace;
	struct module_run *visits;
	size_t visit_count, visit_room, now; /* now: the next of them */
	int64_t *before;                     /* elements of the visits before each */
	struct param_use {
		struct param *param;
		int64_t visit;
	} * queue;
	size_t queue_first, queue_count;
	int64_t available;                 /* elements */
	int64_t fetches[3], reductions[3]; /* events that the host may have to wait for */
	size_t fetch_count, reduction_count;
	/* gradients */
	struct param **waiting;
	size_t count;
	int64_t filled;
};

void zero3_wrap(struct machine *m, struct zero3 *z, const struct hparams *s, struct module *module);
void zero3_step(struct machine *m, struct zero3 *z);
void zero3_release(struct zero3 *z);

#endif
