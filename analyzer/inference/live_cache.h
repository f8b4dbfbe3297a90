/* The live blocks of a cache of keys and values: of the newest request, of those before it, and
 * what has been copied. */
#ifndef MEMTRACE_LIVE_CACHE_H
#define MEMTRACE_LIVE_CACHE_H

#include "inference/history.h"
#include "inference/live_inference.h"
#include "trace/tables.h"

struct live_block {
	uint32_t stack;
	bytes clock, size; /* clock: of struct history */
	int is_cache;
};

/* Are `n` blocks no more than a call has layers, as other calls of the same code show? `whole`: all
 * calls that are known. */
int cache_is_of_one_call(const struct history *whole, const struct tables *t, uint32_t stack,
			 size_t n);
/* Adds the cache's blocks of one stack, in the order of time: those of the newest request, and
 * those of requests before. `period`: the time between calls; 0: unknown. `is_one`: they are of one
 * request. */
void live_cache_add(struct live_inference *r, const struct history *h, const struct live_block *b,
		    size_t n, bytes period, int is_one);

#endif
