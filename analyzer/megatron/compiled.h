/* Functions that Megatron-core hands to torch.compile (jit_fuser). Results are the caller's to
 * unref. */
#ifndef MEMTRACE_MEGATRON_COMPILED_H
#define MEMTRACE_MEGATRON_COMPILED_H

#include "megatron/model.h"

/* The activation function after a bias (NULL: none). `gated`: SwiGLU, else GELU. */
tensor compiled_activation(struct machine *m, tensor x, struct param *bias, int gated);
/* residual + dropout(x + bias) */
tensor compiled_dropout_add(struct machine *m, struct megatron_rank *r, tensor x,
			    struct param *bias, tensor residual);
/* x times the sigmoid of attention's output gate */
tensor compiled_gate(struct machine *m, tensor x, tensor gate);
/* Frees the masks of dropout that a checkpointed layer keeps until it returns. */
void release_masks(struct machine *m, struct megatron_rank *r);

#endif
