/* A plan as text. */
#ifndef RENDER_PLAN_TEXT_H
#define RENDER_PLAN_TEXT_H

#include "plan/plan.h"

struct style;

/* The first `top` layouts as a table, and the number of discarded ones by reason. SIZE_MAX: all
 * layouts, and every discarded one with its reason. */
void plan_text(const struct plan *plan, enum plan_launcher launcher, size_t top,
	       const struct style *style, struct buf *out);

#endif
