/* The order of a rank's forward and backward passes. */
#ifndef MEMTRACE_MEGATRON_SCHEDULE_H
#define MEMTRACE_MEGATRON_SCHEDULE_H

#include "megatron/model.h"

/* RotaryEmbedding.forward: fills b->rotary. */
void load_rotary(struct machine *m, struct model_chunk *c, struct microbatch *b);

/* Which chunk runs, and which micro-batch. */
struct pipeline_step {
	int64_t chunk, batch;
};
/* The i-th forward or backward pass of the rank. */
struct pipeline_step schedule_step(const struct megatron_rank *r, int64_t i, int forward);
/* Forward passes that run before the first backward pass. */
int64_t schedule_ahead(const struct megatron_rank *r);
/* Micro-batches that a chunk runs in turn. */
int64_t schedule_group(const struct hparams *s);
/* The number of micro-batches to run in a step; more do not change the peak once the pipeline is
 * full. */
int64_t batches_run(const struct hparams *s);

#endif
