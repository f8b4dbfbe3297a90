/* ALiBi, a bias of the attention scores that grows with the distance, as transformers makes it for
 * all layers. */
#ifndef MEMTRACE_FAMILIES_ALIBI_H
#define MEMTRACE_FAMILIES_ALIBI_H

#include "torch/hparams.h"
#include "torch/machine.h"

/* _get_alibi_slopes: a number for each head. */
tensor alibi_slopes(struct machine *m, int64_t heads);
/* The slopes times the positions, (b * a) x 1 x s, of a type. */
tensor alibi_of(struct machine *m, const struct hparams *s, tensor slopes, enum dtype type);

#endif
