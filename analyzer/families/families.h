/* The model family of a job. */
#ifndef MEMTRACE_FAMILIES_H
#define MEMTRACE_FAMILIES_H

#include "torch/hparams.h"
#include "torch/machine.h"

/* Reads the hyperparameters. -1: in->e names the key and the expected value. */
int family_read(struct hparams *s, struct inputs *in);
/* Checks that the job's family models it. -1: in->e says what is not modelled. */
int family_check(const struct hparams *s, struct inputs *in);
void family_run(struct machine *m, const struct hparams *s, int64_t stage);

#endif
