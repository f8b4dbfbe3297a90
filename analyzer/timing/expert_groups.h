/* The groups of a stage's ranks around its experts, in Megatron-core's order (parallel_state.py):
 * tensor, expert, data. */
#ifndef TIMING_EXPERT_GROUPS_H
#define TIMING_EXPERT_GROUPS_H

#include "timing/kernels.h"
#include "timing/model_sizes.h"

struct expert_groups {
	double tensor;      /* ranks that divide an expert */
	struct group other; /* ranks that have other experts */
	struct group same;  /* ranks that have the same part of the same experts */
};
/* `tp`: the tensor size of the other layers; `data`: context and data ranks. */
struct expert_groups expert_groups(const struct model_sizes *m, double tp, double data, double ep);

#endif
