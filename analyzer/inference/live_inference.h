/* The live blocks of a moment of a job that only calls its model: no backward pass, no
 * optimizer. A no-grad forward pass frees its blocks while it runs. A block that outlives the
 * call of the model is its result, part of a cache of keys and values, or part of a graph that
 * nothing uses. */
#ifndef MEMTRACE_LIVE_INFERENCE_H
#define MEMTRACE_LIVE_INFERENCE_H

#include "inference/history.h"
#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "trace/tables.h"

struct live_inference {
	/* 0 with keeps_graph: the model was called again, and no loss was seen, but a backward pass
	 * may have been meant to come. */
	int is_inference;
	uint32_t calls;          /* of the model; 0: unknown */
	int keeps_graph;         /* the layers' blocks outlive the layers */
	uint32_t graphs_dropped; /* times that the job's own code freed such blocks */
	uint32_t layers;         /* blocks of one stack that a call keeps, if it keeps a graph */
	int is_small_call; /* most blocks of the present call are far smaller than those of another
			    */
	bytes activations; /* blocks of the model and of its callers, other than those below */
	/* Results: blocks of one stack from at least four calls. */
	bytes results;
	uint32_t results_blocks, results_stack;
	/* The cache of keys and values: the live bytes of the newest request, its growth with each
	 * call of the model, and what requests before it have left. */
	bytes cache, cache_token, cache_kept;
	bytes cache_copied; /* of the newest request, what is freed once it is copied */
	uint32_t caches_kept;
};

/* Corrects the category of the cache that the job's own code grows, call by call, and of cuBLAS's
 * workspace. `l` is classified. */
void inference_find_categories(struct lifetimes *l, const struct history *h,
			       const struct spans *spans, const struct tables *t);

/* `l` is classified. `h`: up to the moment; NULL if the trace has a backward pass. `whole`: also of
 * what comes after it; NULL if the job ran out of memory, so that nothing shows what was meant to
 * come. */
struct live_inference inference_live(const struct lifetimes *l, const struct history *h,
				     const struct history *whole, const struct spans *spans,
				     const struct tables *t);

#endif
