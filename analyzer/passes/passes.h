/*
 * The forward passes whose blocks are live at one moment. A job that calls backward() after each
 * forward pass has the blocks of one; more of them are live if the job keeps a graph, or adds up
 * losses before it calls backward().
 */
#ifndef MEMTRACE_PASSES_H
#define MEMTRACE_PASSES_H

#include "passes/left.h"

#define PASSES_CALLERS 64

struct live_passes {
	uint32_t count; /* with live blocks; the failed request counts as a block of its pass */
	bytes newest;   /* of the last of them */
	/* Bytes of the other passes, if the same code allocated blocks in a later pass too: of
	 * passes that no backward pass has followed, and of those that one has. */
	bytes waiting, kept;
	/* Of waiting, passes that one line called: what shows the next one is BEGUN_BY_LINE or
	 * BEGUN_BY_CALL (divide.h). */
	bytes waiting_of_line;
	uint32_t waiting_count, kept_count, kept_stack; /* the stack of the largest kept block */
	uint32_t
		kept_stacks; /* different stacks of blocks of the kept pass that has most of them */
	/* Bytes of the newest pass that a call of the model allocated, if another line called it
	 * again. */
	bytes again;
	/* The lines that made such calls (caller_hash of their stacks), but for those beyond the
	 * room. */
	uint32_t again_callers[PASSES_CALLERS], again_caller_count;
	/* Stacks of a block that the other call made, and of one that the first call made. */
	uint32_t again_stack, first_stack;
	/* Bytes of the generator of a GAN, if its discriminator was called twice since, or its
	 * training called the generator: a step of the discriminator needs none of them. */
	bytes generator;
	struct left_blocks left;
};

/* Is it a line whose call of the model another line repeated? */
static inline int passes_called_again(const struct live_passes *live, uint32_t caller)
{
	for (uint32_t i = 0; i < live->again_caller_count; i++)
		if (live->again_callers[i] == caller)
			return 1;
	return 0;
}

/* `l` is classified. `request`: the stack of the request that failed at this moment, MT_NO_STACK
 * for none. `at_ns`: the moment. */
struct live_passes passes_live(const struct lifetimes *l, const struct spans *spans,
			       const struct tables *t, uint32_t request, uint64_t at_ns);

#endif
