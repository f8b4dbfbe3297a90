/* A plan as JSON. */
#ifndef MEMTRACE_PLAN_JSON_H
#define MEMTRACE_PLAN_JSON_H

#include <jansson.h>

#include "plan/plan.h"

/* `simulated`: the layouts that were simulated, or NULL; it stays the caller's. */
void plan_json(const struct plan *plan, enum plan_launcher launcher, json_t *simulated,
	       struct buf *out);

#endif
