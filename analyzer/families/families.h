/* What a job's family is asked. */
#ifndef MEMTRACE_FAMILIES_H
#define MEMTRACE_FAMILIES_H

#include "torch/hparams.h"
#include "torch/machine.h"

/* Reads a job's sizes. -1: in->e says which key is wrong and what was expected. */
int family_read(struct hparams *s, struct inputs *in);
/* Does the job's family model it? -1: no, in->e says what is not modelled. */
int family_check(const struct hparams *s, struct inputs *in);
void family_run(struct machine *m, const struct hparams *s, int64_t stage);

#endif
