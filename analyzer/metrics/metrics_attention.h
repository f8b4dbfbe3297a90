/* Finds, by its softmax, an attention whose frames do not have that name. */
#ifndef MEMTRACE_METRICS_ATTENTION_H
#define MEMTRACE_METRICS_ATTENTION_H

#include "metrics/metrics_pass.h"

/*
 * Tags, in `p`, the stacks of attention's functions: of those that call softmax for blocks more
 * than twice as large as what their own linear layers make, of which two or more are live. In one
 * function are the stacks whose frames are the same up to it; a class's name, which bare names of
 * functions lack, is not needed.
 */
void metrics_tag_attention(struct metrics_pass *p, const struct failure *f,
			   const struct snapshot *live);

#endif
