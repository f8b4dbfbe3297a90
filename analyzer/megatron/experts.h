/* The local experts of Megatron-core's mixture of experts. */
#ifndef MEMTRACE_MEGATRON_EXPERTS_H
#define MEMTRACE_MEGATRON_EXPERTS_H

#include "megatron/model.h"

static inline int64_t local_experts(const struct hparams *s)
{
	return s->experts / s->ep;
}

/* A kernel that makes `n` elements and saves nothing but the size of its input: gathers, scatters,
 * permutations. */
tensor experts_moved(struct machine *m, tensor x, int64_t n);
/* unpermute(): the tokens in their own order; x is the experts' order. */
tensor experts_unpermuted(struct machine *m, const struct hparams *s, tensor x, int64_t n);
/* The activation function of an expert, without the router's probabilities. */
tensor experts_activated(struct machine *m, struct megatron_rank *r, tensor h);
/* `e`: all local experts. For fp8 the rows are padded by copies. */
tensor experts_run(struct machine *m, struct megatron_rank *r, struct expert *e, tensor x);

#endif
