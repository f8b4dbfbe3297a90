/* Megatron-core's multi-token prediction: layers after the last one; each predicts one token
 * further. */
#ifndef MEMTRACE_MEGATRON_MTP_H
#define MEMTRACE_MEGATRON_MTP_H

#include "megatron/model.h"

#define MAX_MTP (NODE_EDGES - 1)

/* Declares their parameters, after those of the final normalization. */
void mtp_declare(struct model_chunk *c);
void mtp_release(struct model_chunk *c);
/* Transformer layer i of a chunk; those of multi-token prediction come last. */
struct megatron_layer *chunk_layer(const struct model_chunk *c, int64_t i);
/* The input of the output layer, which the caller owns. The gradients of the other predictions'
 * losses go through it. */
tensor mtp_forward(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor x);
/* The parts of mtp_forward() around the transformer layer of a single prediction: its input;
 * `before`, that input's hidden states, and the layer's normalized output `x`, one after the other;
 * and the losses of them (*all is taken). The caller owns the results. */
tensor mtp_enter(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor x);
tensor mtp_leave(struct machine *m, struct model_chunk *c, tensor before, tensor x);
tensor mtp_losses(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor *all);

#endif
