/* Metrics that compare a rank with the other ranks of its job. */
#ifndef MEMTRACE_DIAGNOSE_RANKS_H
#define MEMTRACE_DIAGNOSE_RANKS_H

struct report;

/* Sets, in the metrics of each rank: intruders, intruder_bytes, last_stage, stage_activations,
 * stage_static. */
void diagnose_ranks(const struct report *r);

#endif
