/* Transformer Engine's modules as Megatron-core uses them. */
#ifndef MEMTRACE_MEGATRON_TRANSFORMER_ENGINE_H
#define MEMTRACE_MEGATRON_TRANSFORMER_ENGINE_H

#include "megatron/model.h"

/* Linear, or the linear part of LayerNormLinear. The product adds `bias`; NULL: none, or the caller
 * adds it. `gathers`: the input is gathered over sequence parallelism. */
tensor te_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		 struct param *bias, int gathers);
/* Allocates the workspace of a product, or those of a grouped product with `count` streams, if they
 * do not exist yet. */
void te_workspaces(struct machine *m, struct megatron_rank *r, int count);
/* DotProductAttention. `in`: q, k, v, which are views of one buffer. */
tensor te_attention(struct machine *m, struct megatron_layer *l, const tensor *in);

/* The scores of all heads: each of a head's queries times each of its keys. */
int64_t score_count(const struct megatron_rank *r, tensor q, tensor k);
/* The fused masked softmax of Transformer Engine or apex: one kernel in the type of the scores. */
tensor masked_softmax(struct machine *m, tensor x);
/* FusedScaleMaskSoftmax.is_kernel_available(), for so many queries and keys of a sequence; and the
 * softmax of PyTorch's operations, of scores in fp32, which are masked in place if there is a mask.
 */
int softmax_is_fused(const struct megatron_rank *r, int64_t queries, int64_t keys);
tensor softmax_of_torch(struct machine *m, tensor precise, tensor mask, enum dtype type);
/* SwiGLU, which saves its input, and rotary positions, which save nothing. */
tensor fused_swiglu(struct machine *m, tensor x);
tensor fused_rotary(struct machine *m, tensor x);

/* The gradient of a weight of n elements in rows of `in`; the caller owns it. If gradients are
 * accumulated by the product (fused), a placeholder that is kept for each shape. */
tensor weight_gradient(struct machine *m, struct megatron_rank *r, int64_t n, int64_t in,
		       enum dtype type);

/* ---- fp8 copies of weights, inputs and gradients ---- */
/* Is the layer quantized? */
int fp8_layer(const struct hparams *s, int64_t layer);
/* Allocates the fp8 copies of the weight, if they do not exist yet. */
void fp8_weight(struct machine *m, struct megatron_rank *r, struct param *weight);
/* x in fp8. *kept: the copy for the backward pass. The caller owns both. */
tensor fp8_input(struct machine *m, struct megatron_rank *r, tensor x, tensor *kept);
/* The output's gradient in fp8. *transposed: its transpose, or none. The caller owns both. */
tensor fp8_gradient(struct machine *m, struct megatron_rank *r, tensor x, tensor *transposed);

#endif
