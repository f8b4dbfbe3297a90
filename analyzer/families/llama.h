/* transformers' Llama, Mixtral and Qwen2-MoE. */
#ifndef MEMTRACE_FAMILIES_LLAMA_H
#define MEMTRACE_FAMILIES_LLAMA_H

#include "torch/family.h"

extern const struct family_model llama_model;

#endif
