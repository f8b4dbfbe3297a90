/* torch.optim: states and steps. */
#ifndef MEMTRACE_TORCH_OPTIMIZER_H
#define MEMTRACE_TORCH_OPTIMIZER_H

#include "torch/module.h"

struct optimizer {
	const struct hparams *hparams;
	struct module *module;
	enum dtype sharded; /* the type of shards */
	struct optimizer_state {
		tensor step, first, second, scale[2];
	} * states;
	tensor maps[2]; /* the quantization maps of 8-bit states */
};
void optimizer_init(struct machine *m, struct optimizer *o, const struct hparams *s,
		    struct module *module);
/* torch.nn.utils.clip_grad_norm_ */
void clip_gradients(struct machine *m, struct module *module);
void optimizer_step(struct machine *m, struct optimizer *o);
/* optimizer_kinds.c: the states of parameter i (n elements), and the temporaries of a step, of
 * optimizers other than Adam and SGD. */
void make_other_state(struct machine *m, struct optimizer *o, size_t i, int64_t n, enum dtype type);
void other_step(struct machine *m, struct optimizer *o);
/* Is parameter i updated by Muon? Else AdamW updates it. */
int muon_steps(const struct optimizer *o, size_t i);
void zero_grad(struct machine *m, struct module *module);
void optimizer_release(struct optimizer *o);
/* ZeRO: an optimizer of one flat fp32 tensor. */
struct flat_optimizer {
	struct param param, *list[1];
	struct module module;
	struct optimizer optimizer;
};
void flat_optimizer_step(struct machine *m, struct flat_optimizer *f, const struct hparams *s,
			 int64_t n);

#endif
