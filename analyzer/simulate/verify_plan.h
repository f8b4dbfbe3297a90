/* plan --verify: the best layouts of a plan, simulated through the user's command template. */
#ifndef MEMTRACE_SIM_VERIFY_H
#define MEMTRACE_SIM_VERIFY_H

#include "util/buf.h"
#include "plan/plan.h"

/*
 * `command` has {tp}, {pp}, {cp}, {dp}, {vpp}, {ep}, {mbs}, {recompute}, {zero} and {micro_batches}
 * where the layout's sizes go. Of each of the first `count` layouts a rank of the first, the second
 * and the last stage is simulated alone; the largest peak stands beside the estimate, in a table
 * that is added to `out`, or with `json` as objects, whose "layout" is the place in the plan. *fitting: how many ran to
 * their end.
 */
int verify_plan(const struct plan *plan, int count, const char *gpu, char *const *command,
		int json, struct buf *out, int *fitting, struct err *e);

#endif
