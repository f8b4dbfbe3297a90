/* Transformer Engine's modules as Megatron-core uses them. */
#ifndef MEMTRACE_TRANSFORMER_ENGINE_H
#define MEMTRACE_TRANSFORMER_ENGINE_H

#include "families/megatron.h"

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

/* megatron_fp8.c */
int fp8_layer(const struct hparams *s, int64_t layer);
void fp8_weight(struct machine *m, struct megatron_rank *r, struct param *weight);
/* x in fp8, and what is kept of it for the backward pass. */
tensor fp8_input(struct machine *m, struct megatron_rank *r, tensor x, tensor *kept);
tensor fp8_gradient(struct machine *m, struct megatron_rank *r, tensor x, tensor *transposed);

#endif
