/* Which ranks of a job hold the same, so that one of them can stand for the others. */
#ifndef MEMTRACE_SIM_SYMMETRY_H
#define MEMTRACE_SIM_SYMMETRY_H

#include "util/err.h"
#include "util/util.h"

/* The first, those between, the last: of pipeline stages, of an expert group's places. */
enum { SYMMETRY_PARTS = 3 };

/* A rank that is simulated, and the `count` ranks from `first` to `last` that it stands for. */
struct symmetry_row {
	int rank, first, last, count;
	int stage_first, stage_last;
	int expert_first, expert_last; /* places in their expert group; -1: of all places */
};
struct symmetry {
	struct symmetry_row rows[SYMMETRY_PARTS * SYMMETRY_PARTS];
	size_t count;
};

/*
 * From the job's own command line, in Megatron's order of ranks. Ranks of one pipeline stage hold
 * the same: those of data, tensor and context groups, and of expert groups where tokens are spread
 * evenly. With `uneven` experts (CUDASIM_ROUTING=skewed) those of each expert group's first place
 * get most tokens. Of the stages, or places, between the first and the last the second is taken:
 * under 1F1B it holds most micro-batches of them, with uneven experts most tokens.
 */
int symmetry_find(char *const *command, int world, int uneven, struct symmetry *s, struct err *e);

#endif
