/* The layouts that divide evenly: how long they take, and whether they fit. */
#ifndef PLAN_PLAN_JUDGE_H
#define PLAN_PLAN_JUDGE_H

#include "plan/plan_search.h"

/* Predicts the time of a step. */
void plan_time(const struct plan_search *s, struct plan_layout *l);

/* Estimates the candidates, the best first. Those that fit go to the plan's list, the others are
 * discarded with a reason. A system that takes long stops as soon as enough are found. */
void plan_judge(struct plan_search *s);

/* Estimates the stages that plan_judge() left out of the layouts that fit: none is the largest. */
void plan_list_stages(struct plan_search *s);

#endif
