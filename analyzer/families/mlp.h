/* A stack of feed-forward blocks. */
#ifndef MEMTRACE_MLP_H
#define MEMTRACE_MLP_H

#include "torch/family.h"

extern const struct family_model mlp_model;

#endif
