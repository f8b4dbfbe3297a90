/* A training run in plain PyTorch: the model is made, wrapped, and trained for m->steps steps. */
#ifndef MEMTRACE_FAMILIES_TRAIN_H
#define MEMTRACE_FAMILIES_TRAIN_H

#include "distributed/wrapper.h"

struct trained_model {
	struct wrapper *wrapper;
	/* Adds the parameters to the wrapper's module. */
	void (*make)(struct machine *m, void *model);
	/* Runs after the model is wrapped and before the first step; NULL: nothing runs. */
	void (*loaded)(struct machine *m, void *model);
	/* The forward and the backward pass of a micro-batch. */
	void (*micro_batch)(struct machine *m, void *model);
};

/* Layer i, which `block` computes from `layer` and x, with what the wrapper does before and after
 * it; checkpointed if the job recomputes whole layers. The result is the caller's, and so is x. */
tensor train_layer(struct machine *m, struct wrapper *w, int64_t i,
		   tensor (*block)(struct machine *m, void *layer, tensor x), void *layer,
		   tensor x);

void train(struct machine *m, const struct hparams *s, const struct trained_model *t, void *model);

#endif
