/* transformers' BLOOM: modeling_bloom.py. */
#ifndef MEMTRACE_FAMILIES_PLAIN_BLOOM_H
#define MEMTRACE_FAMILIES_PLAIN_BLOOM_H

#include "families/plain_model.h"

extern const struct plain_code plain_bloom;

#endif
