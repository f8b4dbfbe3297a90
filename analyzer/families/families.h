/* The models that are written as their forward pass. */
#ifndef MEMTRACE_FAMILIES_H
#define MEMTRACE_FAMILIES_H

#include "torch/hparams.h"
#include "torch/machine.h"

/* A run of one rank, from initialization to the steady state. */
struct family_model {
	/* Notes go to in->out. -1: this family does not model the job. */
	int (*check)(const struct hparams *s, struct inputs *in);
	/* `stage`: the rank's pipeline stage. m->steps steps are run. */
	void (*run)(struct machine *m, const struct hparams *s, int64_t stage);
};
extern const struct family_model gpt_model, llama_model, megatron_model, mlp_model;

/* Reads a job's sizes. -1: in->e says which key is wrong and what was expected. */
int family_read(struct hparams *s, struct inputs *in);
/* Does the job's family model it? -1: no, in->e says what is not modelled. */
int family_check(const struct hparams *s, struct inputs *in);
void family_run(struct machine *m, const struct hparams *s, int64_t stage);

#endif
