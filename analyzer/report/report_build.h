/* Builds a report from traces. */
#ifndef MEMTRACE_REPORT_BUILD_H
#define MEMTRACE_REPORT_BUILD_H

#include "replay/replay.h"
#include "report/report.h"

struct config;

/* Replays a loaded trace and adds one entry per device that it used; a trace without a device adds
 * one empty entry. `c`: what the trace declares, or NULL. `options`: those of replay_trace(). */
void report_add(struct report *r, struct trace *t, const struct config *c,
		const struct replay_options *options);

#endif
