/* DeepSpeed's ZeRO, stages 1 and 2 (stage_1_and_2.py): one flat parameter group. The rank that owns
 * a partition has its fp32 weights and moments. */
#ifndef MEMTRACE_DISTRIBUTED_ZERO12_H
#define MEMTRACE_DISTRIBUTED_ZERO12_H

#include "torch/optimizer.h"

struct zero {
	const struct hparams *hparams;
	struct module *module;
	int64_t share,
		owned; /* elements of a partition; of the parameters in this rank's partition */
	tensor flat, master;
	struct flat_optimizer optimizer;
	tensor bucket[2],
		partition; /* gradients that will be reduced, and this rank's reduced ones */
	tensor norm;       /* _global_grad_norm: the engine keeps that of the last step */
	int64_t filled;    /* elements that wait to be reduced */
	struct param **waiting;
	size_t count;
	int index; /* the bucket that is being filled */
};

void zero_wrap(struct machine *m, struct zero *z, const struct hparams *s, struct module *module);
/* The end of the backward pass, clipping, and the optimizer's step. */
void zero_step(struct machine *m, struct zero *z);
void zero_release(struct zero *z);
/* Rejects options of ZeRO that are not modelled. */
void zero_check(const struct hparams *s, struct inputs *in);

#endif
