/*
 * Infers a job's configuration from what it allocated. Three sources, in this order: the sizes of
 * parameters and activations, the code that ran, and for what they leave open a search for the
 * values with the smallest gap between memtrace's own estimate and the blocks at the peak. A value
 * that the trace does not determine stays unset and is listed as undetermined.
 */
#ifndef MEMTRACE_INFER_H
#define MEMTRACE_INFER_H

#include "config/config.h"
#include "infer/alloc_profile.h"
#include "infer/inferred.h"
#include "report/report.h"
#include "util/err.h"

/* A rank of the job with the profile of its trace; both borrowed. */
struct observed_rank {
	const struct rank *rank;
	const struct alloc_profile *profile;
};

/* Adds inferred values to `c`; values that `c` has already stay as they are. Returns -1 if not even
 * the layers can be inferred; the message says why. */
int infer(struct inferred_config *i, struct config *c, const struct observed_rank *w, size_t count,
	  struct err *e);

#endif
