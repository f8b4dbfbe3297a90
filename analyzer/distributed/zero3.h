/* DeepSpeed's ZeRO-3 (zero/stage3.py): partitioned parameters, which are gathered around each
 * module (zero3_coordinator.c), gradients that are reduced in buckets, and an optimizer step by
 * sub-groups. */
#ifndef MEMTRACE_DISTRIBUTED_ZERO3_H
#define MEMTRACE_DISTRIBUTED_ZERO3_H

#include "torch/optimizer.h"

#define COMPUTE_STREAM 0

/* The coordinator's data of a parameter (ds_status and others). */
struct sharded_param {
	enum { NOT_AVAILABLE, IN_FLIGHT, AVAILABLE } status;
	struct param *bias;          /* the bias of the same module */
	struct param_gather *gather; /* the all-gather, while it is in flight */
	tensor staged;               /* the partition, copied from host memory */
	tensor views; /* the storage of the views of the parameter as it is gathered now */
	int active;   /* a module runs that uses it */
	int persists;
	int64_t partition; /* elements of a rank's partition */
	int64_t *uses;     /* numbers of the module runs that use it */
	size_t use_count, use_room, next_use;
	int64_t last_used; /* number of the module run that the prefetcher used it for; -1: none */
};

/* A run of a module in the recorded step, with its parameters. */
struct module_run {
	struct param *params[2];
};

struct sub_group {
	int64_t elements;
	size_t first, end; /* its parameters in the module */
	tensor master;
	struct flat_optimizer *optimizer;
};

struct zero3 {
	const struct hparams *hparams;
	struct module *module;
	int gather_stream, partition_stream; /* without overlap the stream of the computation */
	int64_t partitions;                  /* elements of all partitions of this rank */
	tensor flat, bucket, gradients;
	struct sub_group *groups;
	size_t group_count;
	/* the coordinator */
	enum { INVALID, RECORDING, COMPLETE } trace;
	struct module_run *runs;
	size_t run_count, run_room, now; /* now: the number of the next run */
	int64_t *elements_before; /* elements of the parameters of the runs before each run */
	struct param_use {
		struct param *param;
		int64_t run;
	} * queue;
	size_t queue_first, queue_count;
	int64_t available;                 /* elements of gathered parameters */
	int64_t fetches[3], reductions[3]; /* events that the host may wait for */
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
