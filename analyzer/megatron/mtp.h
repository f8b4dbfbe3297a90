/* Megatron-core's multi-token prediction: layers behind the last one, each for one token further.
 */
#ifndef MEMTRACE_MTP_H
#define MEMTRACE_MTP_H

#include "megatron/model.h"

#define MOST_MTP (NODE_EDGES - 1)

/* Their parameters, behind the final normalization. */
void mtp_declare(struct model_chunk *c);
void mtp_release(struct model_chunk *c);
/* The transformer layers of a chunk, those of multi-token prediction last. */
struct megatron_layer *chunk_layer(const struct model_chunk *c, int64_t i);
/* The input of the output layer, through which the other losses' gradients come as well. */
tensor mtp_forward(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor x);

#endif
