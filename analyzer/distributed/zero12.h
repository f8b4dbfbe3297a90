/* DeepSpeed's ZeRO, stages 1 and 2 (stage_1_and_2.py): one flat parameter group; the rank that owns
 * a piece has its fp32 weights and moments. */
#ifndef MEMTRACE_DEEPSPEED_H
#define MEMTRACE_DEEPSPEED_H

#include "torch/optimizer.h"

struct zero {
	const struct hparams *hparams;
	struct module *module;
	int64_t share, owned; /* elements of a piece; of the parameters that lie in this rank's */
	tensor flat, master;
	struct flat_optimizer optimizer;
	tensor bucket[2], partition; /* gradients: to be reduced, and reduced ones of this rank */
	tensor norm;                 /* _global_grad_norm: the engine has the last step's */
	int64_t filled;              /* elements that wait to be reduced */
	struct param **waiting;
	size_t count;
	int index; /* which bucket is filled */
};

void zero_wrap(struct machine *m, struct zero *z, const struct hparams *s, struct module *module);
/* The end of the backward pass, clipping, and the optimizer's step. */
void zero_step(struct machine *m, struct zero *z);
void zero_release(struct zero *z);
/* What of ZeRO is not modelled is refused. */
void zero_check(const struct hparams *s, struct inputs *in);

#endif
