/* The peaks that a device would have had without the blocks of one kind (enum counterfactual). */
#ifndef MEMTRACE_METRICS_COUNTERFACTUAL_H
#define MEMTRACE_METRICS_COUNTERFACTUAL_H

#include "metrics/metrics_live.h"
#include "metrics/metrics_sizes.h"

#define COUNTERFACTUAL(what, when) ((when) ? 1u << WITHOUT_##what : 0)

/* Sets removed_by. */
void counterfactuals_by_stack(struct metrics_pass *p);

/* The counterfactuals that remove a block. `is_new`: it is of a forward pass that no backward pass
 * follows. */
static inline unsigned counterfactuals_of(const struct metrics_pass *p, const struct device_pass *d,
					  uint32_t stack, int autograd, bytes size, int is_new)
{
	stack_tags tags = p->tags[stack];
	int is_huge;

	if (size < METRICS_MIN_BLOCK)
		return 0;
	is_huge = d->huge && size >= d->huge / 4 && d->phase != PHASE_SETUP &&
		  d->phase != PHASE_OPTIMIZER && metrics_is_huge(p, d, stack, size);
	return p->removed_by[stack] | COUNTERFACTUAL(NEW_RUN, is_new) |
	       COUNTERFACTUAL(LOGITS, d->phase != PHASE_SETUP && metrics_is_logits(d, tags, size)) |
	       COUNTERFACTUAL(ATTENTION, metrics_is_score(d, tags, autograd, size)) |
	       COUNTERFACTUAL(HUGE, is_huge) | COUNTERFACTUAL(OWN_LOGITS, is_huge);
}

/* The highest `allocated` that leaves the peak of a counterfactual as it is. */
static inline bytes counterfactual_limit(const struct device_pass *d, unsigned which)
{
	/* `best_first` is never above `best`. */
	return d->level[which] + (d->optimizer_seen ? d->best[which] : d->best_first[which]);
}

/* Adds a block to the levels of the counterfactuals that remove it. */
static inline void counterfactuals_add(struct device_pass *d, unsigned removed_by, bytes size)
{
	for (unsigned bits = removed_by; bits; bits &= bits - 1)
		add(&d->level[__builtin_ctz(bits)], size);
}

/* Takes a block from the level of a counterfactual that removes it. */
static inline void counterfactual_take(struct device_pass *d, unsigned which, bytes size)
{
	add(&d->level[which], -size);
	d->limit = smaller_of(d->limit, counterfactual_limit(d, which));
}

static inline void counterfactuals_take(struct device_pass *d, unsigned removed_by, bytes size)
{
	for (unsigned bits = removed_by; bits; bits &= bits - 1)
		counterfactual_take(d, (unsigned)__builtin_ctz(bits), size);
}

/* Updates the peaks at the top of a rise. */
void counterfactuals_note_top(struct device_pass *d, bytes top);

#endif
