/* Megatron-core's mixture of experts. */
#ifndef MEMTRACE_MOE_H
#define MEMTRACE_MOE_H

#include "megatron/model.h"

/* Router, local experts and shared expert of a layer, in the order of their parameters. */
void moe_declare(struct model_chunk *c, struct megatron_layer *l);
tensor moe_forward(struct machine *m, struct megatron_layer *l, tensor x);
/* Its part before tokens are dispatched: how many results there are, two at most. */
int moe_captured(struct machine *m, struct megatron_layer *l, tensor x, tensor *out);

#endif
