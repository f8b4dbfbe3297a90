/* Traces of any length that resemble those of a training job, to measure and test the analyzer
 * where real jobs are too few or too short. */
#ifndef MEMTRACE_TEST_WRITE_TRAINING_H
#define MEMTRACE_TEST_WRITE_TRAINING_H

#include "write_trace.h"

/* Adds `events` events, in steps of 3000 (forward, backward, optimizer), with at most `live` live
 * blocks. The same seed gives the same events. Every block is `scale` times its size. */
void write_training(struct writer *w, size_t events, size_t live, uint64_t seed, int64_t scale);

/*
 * Rank `rank` of a Megatron job of `world` ranks, t=2, p=4, with `events` events. The ranks of a
 * stage are alike, and later stages hold less; `scale` makes a rank larger.
 */
void write_megatron_rank(struct writer *w, int rank, int world, size_t events, int64_t scale);

#endif
