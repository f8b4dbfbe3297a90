/* The search for values that the sizes leave open: alternatives are estimated and compared with the
 * blocks at the peak. */
#ifndef MEMTRACE_INFER_SEARCH_H
#define MEMTRACE_INFER_SEARCH_H

#include "infer/infer.h"

/* An alternative is worse, or clearly worse, if its gap is larger by this share of the observed
 * bytes. */
#define WORSE 0.0001
#define CLEARLY 0.002

/* The observed peaks of all ranks, added. */
bytes infer_observed(const struct observed_rank *w, size_t count);
/* Tries alternatives of everything that is open, and keeps those with the smallest gap. */
void infer_search(struct inferred_config *i, struct config *c, const struct observed_rank *w,
		  size_t count);
/*
 * The gap of a configuration on all the ranks: bytes that are missing or unexplained, and with a
 * small weight the errors of the peaks and the dissimilarity of the forward pass. A result of
 * `enough` or more may be incomplete, unless `enough` is -1. -1: the configuration cannot be
 * estimated.
 */
bytes infer_gap(const struct config *c, const struct observed_rank *w, size_t count, bytes enough);
/* Writes why a configuration cannot be estimated on a rank. */
void infer_refusal(const struct config *c, const struct observed_rank *w, struct err *e);

#endif
