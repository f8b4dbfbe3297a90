/* Megatron-core's Mamba layers (megatron/core/ssm/mamba_mixer.py) and hybrid models. */
#ifndef MEMTRACE_MEGATRON_MAMBA_H
#define MEMTRACE_MEGATRON_MAMBA_H

#include "megatron/model.h"

void mamba_declare(struct model_chunk *c, struct megatron_layer *l);
/* MambaMixer.forward, of normalized hidden states */
tensor mamba_mix(struct machine *m, struct megatron_layer *l, tensor x);

/* Rejects hybrid models that are not modelled. */
void check_hybrid(const struct hparams *s, struct inputs *in);

#endif
