/* The most frequent reasons for which layouts are discarded. */
#ifndef PLAN_PLAN_REASONS_H
#define PLAN_PLAN_REASONS_H

#include "plan/plan.h"

#define PLAN_REASONS 3

struct plan_reason {
	const char *text; /* of one of the layouts */
	int64_t count;
};

/* Fills `top`, the most frequent first; returns how many. Reasons that differ in numbers only are
 * one. */
size_t plan_reasons(const struct plan *plan, struct plan_reason top[PLAN_REASONS]);

#endif
