/*
 * The difference between two jobs, A and B. Each side is one run or several runs of the same job.
 * Of several runs the medians are compared, and only a difference beyond their spread is a change.
 */
#ifndef MEMTRACE_DIFF_H
#define MEMTRACE_DIFF_H

#include "diff/diff_items.h"

/* Compares the runs of both sides, which the caller has set and keeps. `rank`: the rank that is
 * compared, or NO_RANK for the one that each run's report shows in detail. Fails if a run lacks
 * it. */
int diff_make(struct diff *d, int rank, struct err *e);
void diff_release(struct diff *d);

#endif
