/* A plan as text and as JSON. */
#ifndef RENDER_PLAN_OUTPUT_H
#define RENDER_PLAN_OUTPUT_H

#include "plan/plan.h"

struct style;

/* `more`: further members of the object, or NULL. */
void plan_json(const struct plan *plan, enum launcher launcher, const struct buf *more,
	       struct buf *out);
/* The first `top` layouts as a table; SIZE_MAX: all of them, and every discarded layout. */
void plan_text(const struct plan *plan, enum launcher launcher, size_t top, const struct style *style,
	       struct buf *out);

#endif
