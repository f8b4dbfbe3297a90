/* plan --verify: simulates the best layouts of a plan with the user's command template. */
#ifndef MEMTRACE_VERIFY_PLAN_H
#define MEMTRACE_VERIFY_PLAN_H

#include "plan/plan.h"
#include "simulate/messages.h"
#include "simulate/summary.h"
#include "util/buf.h"

#include <jansson.h>

struct verified_layout {
	bytes peak; /* allocated, the largest of the simulated ranks' */
	enum verdict verdict;
};

struct verify_options {
	const char *gpu;
	/* With the placeholders {tp}, {pp}, {cp}, {dp}, {vpp}, {ep}, {mbs}, {recompute}, {zero} and
	 * {micro_batches}. */
	char *const *command;
	const struct messages *messages;
	int output_to_stderr; /* of the command */
};

/* Fills list[] for the first `count` layouts of plan->fitting. A rank of the first, the second and
 * the last stage is simulated, each alone. */
int verify_plan(const struct plan *plan, const struct verify_options *options,
		struct verified_layout *list, size_t count, struct err *e);
/* Adds a line a layout: its sizes, the estimate, the simulated peak beside it. */
void verify_plan_text(const struct plan *plan, const struct verified_layout *list, size_t count,
		      struct buf *out);
/* An array of objects; "layout" is the index in the plan. */
json_t *verify_plan_json(const struct verified_layout *list, size_t count);

#endif
