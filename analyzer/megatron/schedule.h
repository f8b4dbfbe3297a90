/* The order of a rank's forward and backward passes. */
#ifndef MEMTRACE_MEGATRON_SCHEDULE_H
#define MEMTRACE_MEGATRON_SCHEDULE_H

#include "megatron/model.h"

/* RotaryEmbedding.forward: fills b->rotary. */
void load_rotary(struct machine *m, struct model_chunk *c, struct microbatch *b);

/* The chunk that runs, and its micro-batch. */
struct pipeline_step {
	int64_t chunk, batch;
};
/* The i-th forward or backward pass of the rank. */
struct pipeline_step schedule_step(const struct megatron_rank *r, int64_t i, int forward);
/* Forward passes that run before the first backward pass. */
int64_t schedule_ahead(const struct megatron_rank *r);
/* Micro-batches that a chunk runs in turn. */
int64_t schedule_group(const struct hparams *s);
/* The number of micro-batches of a step that a stage runs; fewer than the step has if those that
 * are left out change little. */
int64_t batches_run(const struct hparams *s, int64_t stage);

/* Rounds of a step, of one micro-batch each. If the blocks lie after a round as after an earlier
 * one, the rounds between them repeat, and need not be run. */
struct batch_rounds {
	size_t window; /* micro-batches in flight, and one: blocks of older rounds stay */
	uint64_t *layouts;
	size_t count, room;
};
void schedule_begin_round(struct machine *m);
/* After a round: how many of the `left` following ones have to be run. */
int64_t schedule_rounds_left(struct batch_rounds *r, const struct machine *m, int64_t left);
void schedule_rounds_release(struct batch_rounds *r);

#endif
