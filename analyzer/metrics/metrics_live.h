/* Metrics of the live blocks that explain a peak: forward passes, duplicates, tensors that grow,
 * and tensors that are out of proportion. */
#ifndef MEMTRACE_METRICS_LIVE_H
#define MEMTRACE_METRICS_LIVE_H

#include "metrics/metrics_pass.h"

/* Before the pass: finds d->huge among the live blocks of the moment and the failed request. */
void metrics_find_huge(struct device_pass *d, const struct metrics_pass *p,
		       const struct snapshot *live);
/* May the block be out of proportion? `tags` of its stack; logits and score matrices have rules of
 * their own. */
int metrics_may_be_huge(const struct device_pass *d, stack_tags tags, bytes size);
/* Is a block of at least a quarter of d->huge out of proportion, or was it, before the moment? */
int metrics_is_huge(const struct metrics_pass *p, const struct device_pass *d, uint32_t stack,
		    bytes size);

/* `live`: the live blocks of the moment. Fills in d->m, after the sizes of metrics_sizes.h. */
void metrics_what_is_live(const struct metrics_pass *p, struct device_pass *d,
			  const struct snapshot *live);

#endif
