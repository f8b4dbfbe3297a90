/* The order of a rank's forward and backward passes, and the layers of its model chunks. */
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

/* ---- the layers of each model chunk ---- */

/* `stage`: of the pipeline; `chunk`: of the stage, by virtual pipeline parallelism. */
int64_t chunk_first_layer(const struct hparams *s, int64_t stage, int64_t chunk);
int64_t chunk_layers(const struct hparams *s, int64_t stage, int64_t chunk);
/* Layers of multi-token prediction. */
int64_t chunk_mtp(const struct hparams *s, int64_t stage, int64_t chunk);
/* Rejects a layout that does not place each layer once, or multi-token prediction away from the
 * loss. */
void check_stages(const struct hparams *s, struct inputs *in);
/* Rejects numbers of micro-batches that leave stages idle, as
 * forward_backward_pipelining_with_interleaving() does. */
void check_interleaving(const struct hparams *s, struct inputs *in);

#endif
