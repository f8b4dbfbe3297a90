/* The wrapper of a model: DistributedDataParallel, FSDP or DeepSpeed's ZeRO, and the optimizer. */
#ifndef MEMTRACE_DISTRIBUTED_WRAPPER_H
#define MEMTRACE_DISTRIBUTED_WRAPPER_H

#include "distributed/ddp.h"
#include "distributed/zero12.h"
#include "distributed/fsdp.h"
#include "torch/grad_scaler.h"
#include "torch/optimizer.h"
#include "distributed/zero3.h"

struct wrapper {
	const struct hparams *hparams;
	struct module module;
	size_t *first; /* index of the first parameter of each block, and of those after the blocks
			*/
	struct optimizer optimizer;
	struct grad_scaler scaler;
	struct ddp ddp;
	struct fsdp fsdp;
	struct zero zero;
	struct zero3 zero3;
	tensor mean_loss; /* DeepSpeed: the loss divided by the micro-batches of a step */
};

/* Before the module has parameters. */
void wrapper_init(struct wrapper *w, const struct hparams *s);
/* Once the module has all parameters. */
void wrapper_start(struct machine *m, struct wrapper *w);
/* Before and after the forward pass, and before and after block i in it. The input that
 * wrapper_before_block() returns is the caller's; *out, the block's output, is replaced. */
void wrapper_before_forward(struct machine *m, struct wrapper *w);
void wrapper_after_forward(struct machine *m, struct wrapper *w);
tensor wrapper_before_block(struct machine *m, struct wrapper *w, int64_t i, tensor x);
void wrapper_after_block(struct machine *m, struct wrapper *w, int64_t i, tensor *out);
/* Before and after the backward pass. */
void wrapper_before_backward(struct machine *m, struct wrapper *w);
void wrapper_after_backward(struct machine *m, struct wrapper *w);
/* The loss scaled by the GradScaler or by DeepSpeed's engine; the caller owns it. */
tensor wrapper_scaled(struct machine *m, struct wrapper *w, tensor loss);
/* Runs m->steps steps: micro-batches, then the step of the optimizer or of DeepSpeed's engine, and
 * zero_grad(). */
void wrapper_train(struct machine *m, struct wrapper *w,
		   void (*micro_batch)(struct machine *m, void *model), void *model);
void wrapper_release(struct wrapper *w);
/* Rejects options that no wrapper models. */
void wrapper_check(const struct hparams *s, struct inputs *in);

#endif
