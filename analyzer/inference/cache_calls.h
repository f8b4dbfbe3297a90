/*
 * How a cache of keys and values grows, call by call of the model: how much each call adds to it,
 * and how many more calls fit. The blocks of the job go through a model of PyTorch's allocator, and
 * the last call is repeated there with blocks that go on growing, until one does not fit: the
 * copies that torch.cat() makes and the gaps between blocks count. If many thousand fit, only one
 * call of several is repeated, at the size that it has by then.
 */
#ifndef MEMTRACE_CACHE_CALLS_H
#define MEMTRACE_CACHE_CALLS_H

#include <memtrace/trace.h>

#include "inference/history.h"
#include "util/util.h"

struct cache_plan {
	const unsigned char *is_cache; /* by stack */
	size_t stack_count;
	uint32_t stack; /* one of the cache's: a call begins with its block for the first layer */
	struct series series; /* of that stack */
	bytes room;           /* of PyTorch on the device; 0: unknown */
	const char *conf;     /* PYTORCH_CUDA_ALLOC_CONF; "": not set */
	int torch_version;    /* 215 is 2.15; 0: unknown */
};

struct cache_growth {
	bytes token;  /* of the cache, with each call; 0: unknown */
	int64_t left; /* calls that fit after the last one; -1: unknown */
};

struct cache_calls;

struct cache_calls *cache_calls_new(const struct cache_plan *plan);
/* A block was allocated. Returns its number, for cache_calls_free(). */
uint32_t cache_calls_add(struct cache_calls *c, const struct mt_record *block);
void cache_calls_free(struct cache_calls *c, uint32_t block);
/* Frees `c`. */
struct cache_growth cache_calls_end(struct cache_calls *c);

#endif
