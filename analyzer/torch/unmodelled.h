/* Options of a job that change its memory and that this system does not count. */
#ifndef MEMTRACE_TORCH_UNMODELLED_H
#define MEMTRACE_TORCH_UNMODELLED_H

#include "torch/hparams.h"

/* Rejects options that change many bytes, and notes the others. -1: an option was rejected. */
int check_unmodelled(const struct hparams *s, struct inputs *in);

#endif
