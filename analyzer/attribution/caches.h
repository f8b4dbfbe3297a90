#ifndef MEMTRACE_CACHES_H
#define MEMTRACE_CACHES_H

#include "attribution/block_info.h"
#include "attribution/lifetime.h"

/*
 * copy.deepcopy() of a cache of keys and values leaves no name of a cache on the stack: its tensors
 * have the sizes of those that the cache's own code made. Such copies are for generation, and so is
 * what they were made of: both become CATEGORY_KV_CACHE.
 */
void find_copied_caches(const struct block_context *c, struct lifetimes *l);

/*
 * Keys and values of many layers, of which nothing else is kept, in a job without a backward pass:
 * with a graph, the model would keep as many blocks of its other lines. Without torch.no_grad() on
 * the stack, as before a job's first backward pass, that is what tells the reading of a prompt from
 * the first step of a training that does not switch the cache off.
 */
void find_lone_caches(const struct block_context *c, struct lifetimes *l);

#endif
