/* A rank's parameters, contiguous buffers and optimizer states. */
#ifndef MEMTRACE_MEGATRON_PARAMETERS_H
#define MEMTRACE_MEGATRON_PARAMETERS_H

#include "megatron/model.h"

/* Allocates parameters, buffers and fp32 masters as Megatron-LM does before the first step. */
void rank_make(struct machine *m, struct megatron_rank *r);
/* The optimizer's step. */
void rank_step(struct machine *m, struct megatron_rank *r);
/* optimizer.zero_grad() */
void rank_zero_grad(struct machine *m, struct megatron_rank *r);
void rank_release(struct megatron_rank *r);

#endif
