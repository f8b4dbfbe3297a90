/* Transformer Engine's modules as Megatron-core uses them. */
#ifndef MEMTRACE_TRANSFORMER_ENGINE_H
#define MEMTRACE_TRANSFORMER_ENGINE_H

#include "model/memtrace/megatron.h"

/* Linear, or the linear part of LayerNormLinear. `bias` is added by the product itself; NULL: none, or it is left to who comes next.
 * gathers: the input is gathered over sequence parallelism. */
tensor te_linear(struct machine *m, struct rank *r, tensor x, struct param *weight,
		 struct param *bias, int gathers);
/* DotProductAttention of views of one buffer. in: q, k, v */
tensor te_attention(struct machine *m, void *context, const tensor *in);

#endif
