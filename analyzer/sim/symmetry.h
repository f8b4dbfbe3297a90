/* Which ranks of a job hold the same, so that one of them can stand for the others. */
#ifndef MEMTRACE_SIM_SYMMETRY_H
#define MEMTRACE_SIM_SYMMETRY_H

#include "err.h"
#include "util.h"

/* A rank that is simulated, and those that it stands for: `stands_for` ranks from `first` on. */
struct symmetry_row {
	int rank, first, last, stages_first, stages_last;
};
struct symmetry {
	struct symmetry_row rows[3]; /* the first, a middle, the last stage */
	size_t count;
	int stages;
};

/*
 * From the job's own command line. Pipeline stages are the outermost of a job's ranks (Megatron's order
 * tp-cp-ep-dp-pp): world / stages ranks each. Ranks of one stage hold the same, those of data, tensor,
 * context and, where tokens are spread evenly, expert groups alike. Of the stages between the first and
 * the last the second is taken: under 1F1B it holds most micro-batches.
 */
int symmetry_find(char *const *command, int world, struct symmetry *s, struct err *e);

#endif
