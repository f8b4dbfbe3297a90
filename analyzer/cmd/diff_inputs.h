/* The inputs of a comparison of two jobs: the runs of each side. */
#ifndef MEMTRACE_DIFF_INPUTS_H
#define MEMTRACE_DIFF_INPUTS_H

#include "diff/diff.h"

/* The runs of one side. The diff refers to them. */
struct side_runs {
	struct session *all[DIFF_MAX_RUNS];
	size_t count;
};

struct diff_inputs {
	struct side_runs sides[SIDES];
	struct diff diff;
};

/* Reads both sides: each a file, a directory, DIR@RUN, DIR@all, or several of these with commas;
 * and compares `rank` of them, or if it is NO_RANK the rank that each run's report shows. Must be
 * released even on failure. */
int diff_inputs_read(struct diff_inputs *d, char *const *sides, int rank, struct buf *notes,
		     struct err *e);
void diff_inputs_release(struct diff_inputs *d);

#endif
