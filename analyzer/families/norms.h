/* The normalizations of transformers' decoders. */
#ifndef MEMTRACE_FAMILIES_NORMS_H
#define MEMTRACE_FAMILIES_NORMS_H

#include "families/decoders.h"
#include "torch/machine.h"

/* The normalization of x, whose rows have `width` elements. weight is NULL if it has none. */
tensor normed(struct machine *m, const struct decoder *row, struct param *weight, tensor x,
	      int64_t width);

#endif
