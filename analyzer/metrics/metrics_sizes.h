/* Blocks of logits and of attention scores are recognized by their sizes. */
#ifndef MEMTRACE_METRICS_SIZES_H
#define MEMTRACE_METRICS_SIZES_H

#include "metrics/metrics_pass.h"

/* Do the sizes differ by the allocator's rounding at most? */
static inline int same_size(bytes a, bytes b)
{
	bytes d = a > b ? a - b : b - a;

	return b > 0 && d <= b / 50;
}

/* Is `a` the size `b`, half of it or twice it? */
static inline int is_same_half_or_twice(bytes a, bytes b)
{
	return same_size(a, b) || same_size(a, b / 2) || same_size(a, 2 * b);
}

/* Finds both sizes among the blocks of `s`, those that are live at the moment, and the failed
 * request. Tags stacks of optimizer states in `p`. */
void metrics_find_sizes(struct device_pass *d, struct metrics_pass *p, const struct snapshot *s);
/* `tags`: of the block's stack. `autograd`: an autograd thread allocates it. */
static inline int metrics_is_logits(const struct device_pass *d, stack_tags tags, bytes size)
{
	if (!d->logits || tags & (TAGGED(OPTIMIZER) | TAGGED(LOAD)))
		return 0;
	if (tags & TAGGED(LOSS))
		return size >= d->logits / 4;
	return same_size(size, d->logits) || (d->logits_half && same_size(size, d->logits / 2)) ||
	       (d->logits_twice && same_size(size, d->logits * 2));
}

/* Is it in the step of an optimizer that the job has written itself, and in no closure? */
static inline int metrics_is_own_step(stack_tags tags)
{
	return tags & TAGGED(ANY_STEP) && !(tags & (TAGGED(OPTIMIZER) | TAGGED(STATE) |
						    TAGGED(MODEL) | TAGGED(LOSS) | TAGGED(CLIP)));
}

static inline int metrics_is_score(const struct device_pass *d, stack_tags tags, int autograd,
				   bytes size)
{
	if (!d->scores || tags & TAGGED(KV_CACHE))
		return 0;
	if (tags & TAGGED(ATTENTION))
		return !(tags & TAGGED(LINEAR)) &&
		       (is_same_half_or_twice(size, d->scores) || same_size(size, d->scores / 4));
	return autograd && is_same_half_or_twice(size, d->scores);
}

#endif
