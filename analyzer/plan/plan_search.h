/* The state of the search while it goes from dimension to dimension. */
#ifndef MODEL_PLAN_SEARCH_H
#define MODEL_PLAN_SEARCH_H

#include "plan/plan.h"
#include "estimate/inputs.h"

struct plan_search {
	struct plan *plan;
	struct config scratch;
	struct plan_layout now;
	int counting; /* 1: layouts below a value without a formula are only counted */
	int64_t counted;
	int64_t estimated;
	unsigned met;       /* BIT(DIM_...): the value of --fix was among those tried */
	struct err refusal; /* the first rejection by the system */
};

#endif
