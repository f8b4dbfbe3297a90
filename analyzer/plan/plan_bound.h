/* Bounds below a layout's memory, which spare estimates: a closed formula, and the states of other
 * layouts that were estimated. */
#ifndef PLAN_PLAN_BOUND_H
#define PLAN_PLAN_BOUND_H

#include "plan/plan_search.h"

/* Bytes that a stage needs in any case. 0: there is no bound for this job. */
double plan_least_bytes(const struct plan_search *s, const struct plan_layout *l);
/* Keeps the `n` bytes of the layout's states, which alone do not fit. */
void plan_keep_states(struct plan_search *s, const struct plan_layout *l, wide n);

#endif
