/* torch.optim: states and steps. */
#ifndef MEMTRACE_OPTIMIZER_H
#define MEMTRACE_OPTIMIZER_H

#include "torch/module.h"

struct optimizer {
	const struct hparams *hparams;
	struct module *module;
	enum dtype sharded; /* the type of what is a shard */
	struct optimizer_state {
		tensor step, first, second, scale[2];
	} * states;
	tensor maps[2]; /* of 8-bit states */
};
void optimizer_init(struct machine *m, struct optimizer *o, const struct hparams *s,
		    struct module *module);
/* clip_grad_norm_ */
void clip_gradients(struct machine *m, struct module *module);
void optimizer_step(struct machine *m, struct optimizer *o);
/* optimizers.c: the state of parameter i, and the temporaries of a step, of other kinds. */
void make_other_state(struct machine *m, struct optimizer *o, size_t i, int64_t n, enum dtype type);
void other_step(struct machine *m, struct optimizer *o);
/* Is parameter i stepped by Muon, rather than by AdamW beside it? */
int muon_steps(const struct optimizer *o, size_t i);
void zero_grad(struct machine *m, struct module *module);
void optimizer_release(struct optimizer *o);
/* An optimizer of one flat fp32 tensor of n elements, whatever it was made of: ZeRO's. */
struct flat_optimizer {
	struct param param, *list[1];
	struct module module;
	struct optimizer optimizer;
};
void flat_optimizer_step(struct machine *m, struct flat_optimizer *f, const struct hparams *s,
			 int64_t n);

#endif
