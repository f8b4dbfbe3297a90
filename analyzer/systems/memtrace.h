/*
 * What the rest of the analyzer may ask of our own system beyond an estimate: one stage's run in
 * full. `memtrace match` holds the blocks at the peak against those of a trace.
 */
#ifndef MEMTRACE_MEMTRACE_H
#define MEMTRACE_MEMTRACE_H

#include "torch/machine.h"
#include "estimate/estimate.h"

/* The role's row of terms.def. */
struct role_row {
	const char *id, *component, *title, *formula, *source;
};
extern const struct role_row role_rows[TERMS];

/* A rank of the job: its pipeline stage, and its places in data and context parallelism, on which
 * pieces of flat parameters depend. */
struct coordinates {
	int64_t stage, data, context;
};

/* Runs one rank of the job. `events`: NULL, or every allocation and free goes there as a line:
 * sign, bytes, stream, step, phase, term. Then `visit` sees the machine, with the blocks that were
 * live at its peak in peak_blocks. -1: the job is not modelled. */
int memtrace_run(const struct config *c, struct coordinates at, FILE *events,
		 void (*visit)(const struct machine *m, void *context), void *context,
		 struct err *e);

#endif
