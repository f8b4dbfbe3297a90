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

/* Frees the table and its entries, which hold nothing else; `all` is NULL afterwards. HASH_CLEAR
 * leaves the links between the entries. */
#define HASH_RELEASE(all)                                         \
	do {                                                      \
		__typeof__(all) entry_ = (all), next_;            \
		HASH_CLEAR(hh, all);                              \
		for (; entry_; entry_ = next_) {                  \
			next_ = (__typeof__(all))entry_->hh.next; \
			free(entry_);                             \
		}                                                 \
	} while (0)

#endif
