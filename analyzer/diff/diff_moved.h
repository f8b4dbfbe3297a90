/* Stacks whose line numbers changed between two jobs. */
#ifndef MEMTRACE_DIFF_MOVED_H
#define MEMTRACE_DIFF_MOVED_H

#include "diff/diff_items.h"

/* Merges a stack that only A has with one that only B has if they differ in line numbers alone. The
 * items must be sorted. */
void diff_pair_moved(struct diff *d);

#endif
