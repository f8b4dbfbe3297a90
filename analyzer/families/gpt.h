/* nanoGPT. */
#ifndef MEMTRACE_FAMILIES_GPT_H
#define MEMTRACE_FAMILIES_GPT_H

#include "torch/family.h"

extern const struct family_model gpt_model;

#endif
