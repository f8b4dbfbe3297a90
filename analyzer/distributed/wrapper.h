/* A model with what is around it, whatever its family: DistributedDataParallel, FSDP or DeepSpeed's
 * ZeRO, and the optimizer. */
#ifndef MEMTRACE_WRAPPED_H
#define MEMTRACE_WRAPPED_H

#include "distributed/ddp.h"
#include "distributed/zero12.h"
#include "distributed/fsdp2.h"
#include "torch/grad_scaler.h"
#include "torch/optimizer.h"
#include "distributed/zero3.h"

struct wrapper {
	const struct hparams *hparams;
	struct module module;
	size_t *first; /* of each block in the module, and of what is after them */
	struct optimizer optimizer;
	struct grad_scaler scaler;
	struct ddp ddp;
	struct fsdp fsdp;
	struct zero zero;
	struct zero3 zero3;
	tensor mean_loss; /* DeepSpeed's, over the micro-batches of a step */
};

/* Before the module has parameters. */
void wrapper_init(struct wrapper *w, const struct hparams *s);
/* Once it has them all. */
void wrapper_start(struct machine *m, struct wrapper *w);
/* Around the forward pass, and around block i in it, whose output is *out. */
void wrapper_before_forward(struct machine *m, struct wrapper *w);
void wrapper_after_forward(struct machine *m, struct wrapper *w);
tensor wrapper_before_block(struct machine *m, struct wrapper *w, int64_t i, tensor x);
void wrapper_after_block(struct machine *m, struct wrapper *w, int64_t i, tensor *out);
/* Around the backward pass. */
void wrapper_before_backward(struct machine *m, struct wrapper *w);
void wrapper_after_backward(struct machine *m, struct wrapper *w);
/* The loss as the GradScaler makes it larger, where there is one, or DeepSpeed's engine. */
tensor wrapper_scaled(struct machine *m, struct wrapper *w, tensor loss);
/* Steps: micro-batches, then the optimizer's or DeepSpeed's engine's step, and zero_grad(). */
void wrapper_train(struct machine *m, struct wrapper *w,
		   void (*micro_batch)(struct machine *m, void *model), void *model);
void wrapper_release(struct wrapper *w);
/* Refuses what none of them models. */
void wrapper_check(const struct hparams *s, struct inputs *in);

#endif
