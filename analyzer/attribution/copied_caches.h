#ifndef MEMTRACE_COPIED_CACHES_H
#define MEMTRACE_COPIED_CACHES_H

#include "attribution/block_info.h"
#include "attribution/lifetime.h"

/*
 * copy.deepcopy() of a cache of keys and values leaves no name of a cache on the stack: its tensors
 * have the sizes of those that the cache's own code made. Such copies are for generation, and so is
 * what they were made of: both become CATEGORY_KV_CACHE.
 */
void find_copied_caches(const struct block_context *c, struct lifetimes *l);

#endif
