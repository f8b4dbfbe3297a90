/* Lists of layouts: those that fit, and those that are discarded with a reason. */
#ifndef PLAN_PLAN_LAYOUTS_H
#define PLAN_PLAN_LAYOUTS_H

#include "plan/plan_search.h"

/* Appends a copy of `l`, and returns it. */
struct plan_layout *plan_layouts_append(struct plan_layouts *list, const struct plan_layout *l);
void plan_layouts_release(struct plan_layouts *list);

/* Moves a layout that has a reason to the plan's discarded ones. */
void plan_layouts_discard(struct plan *plan, struct plan_layout *l);

/* Discards the search's present layout with a reason. Always returns 0. */
__attribute__((format(printf, 3, 4))) int plan_discard(struct plan_search *s, enum discard why,
						       const char *format, ...);

#endif
