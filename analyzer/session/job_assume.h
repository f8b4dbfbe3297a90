/* Values of a training job for a model's file that has none: what a first try on one GPU takes. */
#ifndef MEMTRACE_JOB_ASSUME_H
#define MEMTRACE_JOB_ASSUME_H

#include "config/config.h"

struct buf;

/* Sets the micro-batch size and the sequence length of a job whose model comes from Hugging Face's
 * file, if nothing declares them. Appends what it assumes to `assumptions`, as words for people. */
int job_assume(struct config *c, struct buf *assumptions, struct err *e);

/* The same for a plan of `gpus` GPUs, which chooses the micro-batch: a global batch of a sequence
 * for each GPU. */
int job_assume_plan(struct config *c, int64_t gpus, struct buf *assumptions, struct err *e);

#endif
