/* The estimates for the configurations of traces: each configuration is estimated once. */
#ifndef MEMTRACE_RECORD_ESTIMATES_H
#define MEMTRACE_RECORD_ESTIMATES_H

#include "record/record.h"

struct record_estimates;

struct record_estimates *record_estimates_new(void);
void record_estimates_free(struct record_estimates *all);
/* The estimate for a rank's pipeline stage. Returns 0 if the job is not modelled. May be called by
 * several threads. */
int record_estimates_find(struct record_estimates *all, const struct config *declared,
			  const struct rank *r, struct record_estimate *out);

#endif
