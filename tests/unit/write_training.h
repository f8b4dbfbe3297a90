/* Traces of any length that look like a training job's: what the analyzer is measured and tested
 * with where real jobs are too few or too short. */
#ifndef MEMTRACE_TEST_WRITE_TRAINING_H
#define MEMTRACE_TEST_WRITE_TRAINING_H

#include "write_trace.h"

/* Adds `events` events, of steps of 3000 each (forward, backward, optimizer), with at most `live`
 * blocks at a time; the same seed gives the same events. Every block is `scale` times its size. */
void write_training(struct writer *w, size_t events, size_t live, uint64_t seed, int64_t scale);

/*
 * A Megatron job of `world` ranks, t=2, p=4: rank `rank` of it, with `events` events. Ranks of one
 * stage are alike, later stages have less; `scale` makes one larger.
 */
void write_megatron_rank(struct writer *w, int rank, int world, size_t events, int64_t scale);

#endif
