/*
 * What the rest of the analyzer may ask of our own system beyond an estimate: one stage's run in
 * full. `memtrace match` holds the blocks at the peak against those of a trace.
 */
#ifndef MEMTRACE_MEMTRACE_H
#define MEMTRACE_MEMTRACE_H

#include "config/rank_layout.h"
#include "torch/machine.h"
#include "estimate/estimate.h"

extern const struct system memtrace;

/* Runs one rank of the job: its stage, and its coordinates in data and context parallelism, on
 * which the shards of flat parameters depend. `events`: NULL, or every allocation and free goes
 * there as a line: sign, bytes, stream, step, phase, term. Then `visit` sees the machine, with the
 * blocks that were live at its peak in peak_blocks. -1: the job is not modelled. */
int memtrace_run(const struct config *c, struct rank_coordinates at, FILE *events,
		 void (*visit)(const struct machine *m, void *context), void *context,
		 struct err *e);

#endif
