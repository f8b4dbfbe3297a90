/* Similarity of a predicted forward pass to the observed one, by the sizes of its blocks. */
#ifndef MEMTRACE_INFER_LIKENESS_H
#define MEMTRACE_INFER_LIKENESS_H

#include "infer/infer.h"

/* The share of the forward pass' blocks that the configuration predicts, by size and number: 0
 * to 1. */
double infer_likeness(const struct config *c, const struct observed_rank *w);

#endif
