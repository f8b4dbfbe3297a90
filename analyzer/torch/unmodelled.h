/* Options of a job that change its memory and that this system does not count. */
#ifndef MEMTRACE_TORCH_UNMODELLED_H
#define MEMTRACE_TORCH_UNMODELLED_H

#include "torch/hparams.h"

/* An error for what changes many bytes, a note for the rest. -1: an error. */
int check_unmodelled(const struct hparams *s, struct inputs *in);

#endif
