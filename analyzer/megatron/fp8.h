/* Transformer Engine's fp8 copies of weights, inputs and gradients. */
#ifndef MEMTRACE_MEGATRON_FP8_H
#define MEMTRACE_MEGATRON_FP8_H

#include "megatron/model.h"

/* Is the layer quantized? */
int fp8_layer(const struct hparams *s, int64_t layer);
/* Allocates the fp8 copies of the weight, if they do not exist yet. */
void fp8_weight(struct machine *m, struct megatron_rank *r, struct param *weight);
/* x in fp8. *kept: the copy for the backward pass. The caller owns both. */
tensor fp8_input(struct machine *m, struct megatron_rank *r, tensor x, tensor *kept);
/* The output's gradient in fp8. *transposed: its transpose, or none. The caller owns both. */
tensor fp8_gradient(struct machine *m, struct megatron_rank *r, tensor x, tensor *transposed);

#endif
