/* A model that is written as its forward pass. */
#ifndef MEMTRACE_TORCH_FAMILY_H
#define MEMTRACE_TORCH_FAMILY_H

#include "torch/hparams.h"
#include "torch/machine.h"

struct family_model {
	/* Notes go to in->out. -1: the family does not model the job; in->e says why. */
	int (*check)(const struct hparams *s, struct inputs *in);
	/* A run of one rank of the pipeline stage, from initialization to the steady state;
	 * m->steps steps. */
	void (*run)(struct machine *m, const struct hparams *s, int64_t stage);
};

#endif
