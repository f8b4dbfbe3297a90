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

void train(struct machine *m, const struct hparams *s, const struct trained_model *t, void *model);

#endif
