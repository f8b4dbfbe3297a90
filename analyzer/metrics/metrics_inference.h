/* The metrics of a job that only calls its model. */
#ifndef MEMTRACE_METRICS_INFERENCE_H
#define MEMTRACE_METRICS_INFERENCE_H

#include "metrics/metrics_pass.h"

/* Tags the stacks whose blocks are a cache by their category, before sizes are compared. */
void metrics_tag_caches(struct metrics_pass *p, const struct snapshot *live);
/* After the metrics of the live blocks. */
void metrics_find_inference(const struct metrics_pass *p, struct device_pass *d,
			    const struct snapshot *live);

/* Does an evaluation between steps keep what several layers made, or do the first passes of a job,
 * under a name of prediction and none of training? */
void metrics_find_predictions(const struct device_pass *d);

#endif
