/* Megatron-core's multi-latent attention. */
#ifndef MEMTRACE_MLA_H
#define MEMTRACE_MLA_H

#include "megatron/model.h"

/* The attention's parameters of a layer, after its normalization. */
void mla_declare(struct model_chunk *c, struct megatron_layer *l);
/* in: q, k, v */
void mla_project(struct machine *m, struct megatron_layer *l, tensor x, tensor *in);

#endif
