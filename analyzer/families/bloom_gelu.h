/* GeLUFunction of modeling_bloom.py. */
#ifndef MEMTRACE_FAMILIES_BLOOM_GELU_H
#define MEMTRACE_FAMILIES_BLOOM_GELU_H

#include "torch/machine.h"

tensor bloom_gelu(struct machine *m, tensor x);

#endif
