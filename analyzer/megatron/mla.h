/* Megatron-core's multi-latent attention. */
#ifndef MEMTRACE_MEGATRON_MLA_H
#define MEMTRACE_MEGATRON_MLA_H

#include "megatron/model.h"
#include "torch/checkpoint.h"

/* Declares the parameters of a layer's attention, after those of its normalization. */
void mla_declare(struct model_chunk *c, struct megatron_layer *l);
/* Before and after a chunk's parameters are allocated: YarnRotaryEmbedding's tables in fp32, which
 * are converted to the weights' type with the model. */
void mla_make_positions(struct machine *m, struct megatron_layer *l);
void mla_convert_positions(struct machine *m, struct megatron_layer *l);
/* Fills in[]: q, k, v, which the caller owns. --recompute-modules mla_up_proj: returns what
 * discards them; NULL: they are kept. */
struct discarded *mla_project(struct machine *m, struct megatron_layer *l, tensor x, tensor *in);

#endif
