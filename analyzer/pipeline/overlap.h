/* Megatron-core's combined schedule (pipeline_parallel/combined_1f1b.py): the forward pass of one
 * micro-batch and the backward pass of another one run layer by layer in turn, so that the exchange
 * of tokens between experts overlaps with computation. */
#ifndef MEMTRACE_PIPELINE_OVERLAP_H
#define MEMTRACE_PIPELINE_OVERLAP_H

#include "pipeline/passes.h"

/* A forward and a backward pass; the chunk of one that does not run is NULL. */
struct combined_passes {
	struct model_chunk *forward_chunk, *backward_chunk;
	struct microbatch *forward, *backward;
	/* sends and receives between the stages, once the layers of both have run; may be NULL */
	void (*exchange)(struct machine *m, void *context);
	void *context;
};

/* Does the rank have this schedule? CUDA graphs and sharded models keep the order of the other
 * ones. */
int has_combined_passes(const struct hparams *s);
/* Rejects what Megatron-core refuses with it. */
void check_combined_passes(const struct hparams *s, struct inputs *in);
/* combined_forward_backward_step() */
void combined_step(struct machine *m, const struct combined_passes *p, struct variables *v);

#endif
