/* What the search knows while it goes from dimension to dimension; plan.c and plan_divides.c. */
#ifndef MODEL_PLAN_SEARCH_H
#define MODEL_PLAN_SEARCH_H

#include "plan/plan.h"
#include "estimate/inputs.h"

struct plan_search {
	struct plan *plan;
	struct config scratch;
	struct plan_layout now;
	int counting; /* inside what the system cannot express: only how many there are */
	int64_t counted;
	int64_t estimated;
	unsigned met;       /* BIT(DIM_…) whose fixed value was among those that divide */
	struct err refusal; /* the first */
};

#endif
