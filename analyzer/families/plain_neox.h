/* transformers' GPT-NeoX: modeling_gpt_neox.py. */
#ifndef MEMTRACE_FAMILIES_PLAIN_NEOX_H
#define MEMTRACE_FAMILIES_PLAIN_NEOX_H

#include "families/plain_model.h"

extern const struct plain_code plain_neox;

#endif
