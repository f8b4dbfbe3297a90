/* transformers' mixtures of experts: Mixtral's and Qwen2-MoE's. */
#ifndef MEMTRACE_FAMILIES_EXPERTS_H
#define MEMTRACE_FAMILIES_EXPERTS_H

#include "torch/module.h"

/* The weights of a layer's experts: the router, all experts' weights stacked, the shared expert
 * with its gate. */
struct experts {
	const struct hparams *hparams;
	int converts; /* the router's softmax converts to fp32, its result is converted back */
	struct param *router, *up, *down, *shared[3], *gate;
};

/* Allocates the parameters, in the order of model.parameters(). */
void experts_make(struct machine *m, struct module *module, const struct hparams *s, int converts,
		  struct experts *e);
/* The output of the sparse block, which the caller owns. With output_router_logits *logits are the
 * router's logits. */
tensor experts_forward(struct machine *m, struct experts *e, tensor x, tensor *logits);
/* The loss plus load_balancing_loss_func over the logits of `count` layers; the caller owns it. */
tensor experts_auxiliary_loss(struct machine *m, const struct hparams *s, const tensor *logits,
			      int64_t count, tensor loss);

#endif
