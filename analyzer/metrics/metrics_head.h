/* The head: the linear layer that makes a model's outputs. */
#ifndef MEMTRACE_METRICS_HEAD_H
#define MEMTRACE_METRICS_HEAD_H

#include "metrics/metrics_pass.h"

/* The least and the greatest number of forward() methods around a linear layer. */
/* The depths of all linear layers, and the outermost forward() methods that call them: the models,
 * or the nets beside them. */
enum { MOST_ROOTS = 16 };
struct head_depths {
	unsigned least, greatest;
	const struct mt_frame *roots[MOST_ROOTS];
	uint32_t layers[MOST_ROOTS]; /* of each root */
	uint32_t most;               /* of any */
};

struct head_depths metrics_head_depths(const struct metrics_pass *p);
/* Does the outermost forward() of the model, or the job's own code, call this linear layer itself,
 * while others lie deeper? */
int metrics_is_head(const struct metrics_pass *p, const struct head_depths *d, uint32_t stack);
/* The outermost forward() of a stack; NULL: none. */
const struct mt_frame *metrics_root_of(const struct tables *t, uint32_t stack);
int metrics_is_same_function(const struct mt_frame *a, const struct mt_frame *b);
/* How many outermost forward() methods, but for those of losses, have live activations: a job whose
 * own code calls the parts of its model one by one has several. */
unsigned metrics_count_roots(const struct metrics_pass *p, const struct snapshot *live);
/* The size of the head's largest live block or failed request, if it is twice that of any other
 * linear layer; else 0. `f`: NULL if nothing failed. */
bytes metrics_head_size(const struct metrics_pass *p, const struct failure *f,
			const struct snapshot *live);

#endif
