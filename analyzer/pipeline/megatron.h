/* Megatron-core. */
#ifndef MEMTRACE_MEGATRON_H
#define MEMTRACE_MEGATRON_H

#include "torch/family.h"

extern const struct family_model megatron_model;

#endif
