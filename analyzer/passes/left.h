/* Blocks that earlier steps have left. */
#ifndef MEMTRACE_LEFT_H
#define MEMTRACE_LEFT_H

#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "trace/tables.h"

/* Live blocks that models allocated in earlier steps, and that the job's own code allocates in
 * each step again. */
struct left_blocks {
	bytes bytes, most; /* most: of one stack, `stack` */
	bytes now; /* of this step, from such lines of the job's own code or calls of the model */
	bytes behind; /* the part of `now` that was allocated between the end of the step before
			 and the begin of this one */
	uint32_t blocks, stack;
	uint32_t steps; /* the most in which one stack allocated such blocks, this step included */
};

/* `now`: the step of the moment. `l` is classified. */
void passes_find_left(struct left_blocks *left, const struct lifetimes *l,
		      const struct spans *spans, const struct tables *t, uint32_t now);
/* Has a stack left blocks from earlier steps? */
int passes_has_left(const struct lifetimes *l, const struct spans *spans, const struct tables *t,
		    uint32_t stack, uint32_t now);

#endif
