/* transformers' mixtures of experts: Mixtral's and Qwen2-MoE's. */
#ifndef MEMTRACE_EXPERTS_H
#define MEMTRACE_EXPERTS_H

#include "torch/module.h"

/* One layer's: the router, all experts' weights stacked, the shared expert with its gate. */
struct experts {
	const struct hparams *hparams;
	struct param *router, *up, *down, *shared[3], *gate;
};

/* Its parameters, in their order. */
void experts_make(struct machine *m, struct module *module, const struct hparams *s,
		  struct experts *e);
/* The sparse block's output. With output_router_logits *logits gets the router's. */
tensor experts_forward(struct machine *m, struct experts *e, tensor x, tensor *logits);
/* load_balancing_loss_func over every layer's logits, added to the loss. */
tensor experts_auxiliary_loss(struct machine *m, const struct hparams *s, const tensor *logits,
			      int64_t count, tensor loss);

#endif
