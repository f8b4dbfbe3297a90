/* transformers' models with LayerNorm and a feed-forward network without a gate: plain.def. */
#ifndef MEMTRACE_FAMILIES_PLAIN_H
#define MEMTRACE_FAMILIES_PLAIN_H

#include "torch/family.h"

extern const struct family_model plain_model;

/* Is there a forward pass for this model_type? */
int plain_has(const char *type);
/* Has it eager attention alone? */
int plain_is_eager(const char *type);

#endif
