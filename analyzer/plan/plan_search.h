/* The state of the search while it goes from dimension to dimension. */
#ifndef MODEL_PLAN_SEARCH_H
#define MODEL_PLAN_SEARCH_H

#include "plan/plan.h"
#include "estimate/inputs.h"

/* States that do not fit, of all layouts with these sizes: neither micro-batches nor recomputation
 * changes them, and data and context parallelism shard them together. */
struct plan_states {
	int64_t tp, pp, vpp, ep, ranks, zero;
	wide bytes;
};

struct plan_search {
	struct plan *plan;
	struct config scratch;
	struct plan_layout now;
	int counting; /* 1: layouts below a value without a formula are only counted */
	int64_t counted;
	struct plan_layouts candidates; /* layouts that divide evenly */
	int is_timed;
	struct step_job job;
	int64_t estimated;
	struct plan_states *states;
	size_t state_count, state_room;
	unsigned met;       /* BIT(DIM_...): the value of --fix was among those tried */
	struct err refusal; /* the first rejection by the system */
};

#endif
