/* A stack of feed-forward blocks. */
#ifndef MEMTRACE_FAMILIES_MLP_H
#define MEMTRACE_FAMILIES_MLP_H

#include "torch/family.h"

extern const struct family_model mlp_model;

#endif
