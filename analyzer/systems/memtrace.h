/*
 * System memtrace: an estimate tensor by tensor, and the run of one rank in full. `memtrace match`
 * compares the blocks at the peak with those of a trace.
 */
#ifndef MEMTRACE_MEMTRACE_H
#define MEMTRACE_MEMTRACE_H

#include "config/rank_layout.h"
#include "torch/machine.h"
#include "estimate/estimate.h"

extern const struct system memtrace;

/* Runs one rank of the job: its stage, and its coordinates in data and context parallelism, on
 * which the shards of flat parameters depend. `events`: NULL, or the file that gets a line for
 * every allocation and free: sign, bytes, stream, step, phase, term, bytes of the block. `visit` is
 * called after the run, with the live blocks of the peak in the machine's peak_blocks. -1: the job
 * is not modelled. */
int memtrace_run(const struct config *c, struct rank_coordinates at, FILE *events,
		 void (*visit)(const struct machine *m, void *context), void *context,
		 struct err *e);

#endif
