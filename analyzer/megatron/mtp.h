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

#endif
