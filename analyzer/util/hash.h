/*
 * Hash tables: uthash, with memory from util.h. Include this header rather than <uthash.h>, whose
 * own answer to a failed allocation is exit(-1).
 */
#ifndef MEMTRACE_HASH_H
#define MEMTRACE_HASH_H

#include "util/util.h"

#define uthash_malloc(size) xcalloc(1, size)
#define uthash_fatal(message) BUG(message)

#include <uthash.h>

#endif
