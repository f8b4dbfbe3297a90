/* Megatron-core's gated delta net, which takes the place of a layer's attention. */
#ifndef MEMTRACE_MEGATRON_GDN_H
#define MEMTRACE_MEGATRON_GDN_H

#include "megatron/model.h"

void gdn_declare(struct model_chunk *c, struct megatron_layer *l);
/* `x`: normalized hidden states. The caller owns the result. */
tensor gdn_forward(struct machine *m, struct megatron_layer *l, tensor x);
/* Rejects what a gated delta net is not modelled with. */
void check_gdn(const struct hparams *s, struct inputs *in);

#endif
