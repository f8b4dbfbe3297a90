/* Megatron-core's mixture of experts. */
#ifndef MEMTRACE_MEGATRON_MOE_H
#define MEMTRACE_MEGATRON_MOE_H

#include "megatron/model.h"

/* Declares the parameters of a layer's router, local experts and shared expert. */
void moe_declare(struct model_chunk *c, struct megatron_layer *l);
tensor moe_forward(struct machine *m, struct megatron_layer *l, tensor x);
/* The part before tokens are dispatched, which is in a CUDA graph. Fills out[] and returns the
 * number of results, two at most; the caller owns them. */
int moe_captured(struct machine *m, struct megatron_layer *l, tensor x, tensor *out);

#endif
