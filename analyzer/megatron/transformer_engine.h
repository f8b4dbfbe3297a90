/* Transformer Engine's modules as Megatron-core uses them. */
#ifndef MEMTRACE_TRANSFORMER_ENGINE_H
#define MEMTRACE_TRANSFORMER_ENGINE_H

#include "megatron/model.h"

/* Linear, or the linear part of LayerNormLinear. `bias` is added by the product itself; NULL: none,
 * or it is left to who comes next. gathers: the input is gathered over sequence parallelism. */
tensor te_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		 struct param *bias, int gathers);
/* The workspaces of a product, or of a grouped one of `count` streams. */
void te_workspaces(struct machine *m, struct megatron_rank *r, int count);
/* DotProductAttention of views of one buffer. in: q, k, v */
tensor te_attention(struct machine *m, void *context, const tensor *in);

/* The fused masked softmax, Transformer Engine's or apex's: one kernel in the scores' own type. */
tensor masked_softmax(struct machine *m, tensor x);
/* Kernels that keep their input alone: SwiGLU, rotary positions. */
tensor fused_swiglu(struct machine *m, tensor x);
tensor fused_rotary(struct machine *m, tensor x);

/* The gradient of a weight of n elements in rows of `in`; the caller owns it. If gradients are
 * accumulated by the product (fused), a placeholder that is kept for each shape. */
tensor weight_gradient(struct machine *m, struct megatron_rank *r, int64_t n, int64_t in,
		       enum dtype type);

#endif
