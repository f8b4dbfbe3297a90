/* transformers' GPT-2: modeling_gpt2.py. */
#ifndef MEMTRACE_FAMILIES_PLAIN_GPT_H
#define MEMTRACE_FAMILIES_PLAIN_GPT_H

#include "families/plain_model.h"

extern const struct plain_code plain_gpt;

#endif
