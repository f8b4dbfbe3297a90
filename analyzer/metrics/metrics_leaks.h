/* Blocks that remain: step after step, or in a run that no backward pass follows. */
#ifndef MEMTRACE_METRICS_LEAKS_H
#define MEMTRACE_METRICS_LEAKS_H

#include "metrics/metrics_pass.h"

/* A block that is live at the moment. */
struct surviving_block {
	uint32_t stack;
	uint16_t thread;
	uint16_t age; /* steps between its allocation and the moment */
	int in_run;   /* of the run, if no backward pass follows it */
	bytes size;
};

/* Sets leak_*, run_repeats, run_repeat_bytes. `blocks`: all live blocks; they are sorted. */
void metrics_find_leaks(const struct tables *t, struct device_pass *d,
			struct surviving_block *blocks, size_t count);

#endif
