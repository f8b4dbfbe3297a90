/* What the job's own code has on the device at the moment: data, inputs, results, and what its
 * hooks keep. */
#ifndef MEMTRACE_METRICS_OWN_H
#define MEMTRACE_METRICS_OWN_H

#include "metrics/metrics_pass.h"

/* Sets the metrics of sets of data, of the set-up, of inputs, evaluation and hooks. The passes and
 * duplicates of `live` are in the metrics already. */
void metrics_find_own(const struct metrics_pass *p, const struct device_pass *d,
		      const struct snapshot *live);

/* The one tensor out of proportion that the job's own code has made, for the model, and of which it
 * computed nothing: data, of which a step needs a part. What is computed of pairs, as a mask, leads
 * to other large tensors. To be called when huge and batch_inputs are known. */
void metrics_find_one_input(struct metrics *m);

/* The job's own code asks for what it computes of the result of an evaluation that has just ended:
 * the moment is of that evaluation, and no step has left its result. To be called when what steps
 * have left is known. */
void metrics_find_result(struct metrics *m);

#endif
