/* The values of a dimension that a layout may have. */
#ifndef PLAN_PLAN_DIVIDES_H
#define PLAN_PLAN_DIVIDES_H

#include "plan/plan_search.h"

/* Returns 1 if --fix and --max allow the dimension's value and it divides what it splits. Otherwise
 * returns 0 and discards the layout, unless --fix asked for another value. */
int plan_allows(struct plan_search *s, enum dimension dim);

#endif
