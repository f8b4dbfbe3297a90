/* Megatron-core's mixture of experts. */
#ifndef MEMTRACE_MEGATRON_MOE_H
#define MEMTRACE_MEGATRON_MOE_H

#include "megatron/model.h"

/* Declares the parameters of a layer's router, local experts and shared expert. */
void moe_declare(struct model_chunk *c, struct megatron_layer *l);
tensor moe_forward(struct machine *m, struct megatron_layer *l, tensor x);
/* The four parts of moe_forward(), each with an input of the part before it: the shared expert, the
 * router and the tokens in the order of experts; the exchange of tokens; the experts; the exchange
 * back, and the sum. *shared: the result of the shared expert, or none. The caller owns results. */
tensor moe_prepare(struct machine *m, struct megatron_layer *l, tensor x, tensor *shared);
tensor moe_dispatch(struct machine *m, struct megatron_layer *l, tensor x);
tensor moe_experts(struct machine *m, struct megatron_layer *l, tensor x);
tensor moe_combine(struct machine *m, struct megatron_layer *l, tensor x, tensor shared);
/* The part before tokens are dispatched, which is in a CUDA graph. Fills out[] and returns the
 * number of results, two at most; the caller owns them. */
int moe_captured(struct machine *m, struct megatron_layer *l, tensor x, tensor *out);

#endif
