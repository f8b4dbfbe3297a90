/*
 * Calls of a model that no backward pass follows. The frames show torch.no_grad() as a decorator,
 * not as a context manager: then the blocks that the calls leave behind decide.
 *
 * A call before every training call is a part of its step (a reference model, a rollout). The
 * evaluation between two steps is not before each of them.
 */
#ifndef MEMTRACE_EVALUATION_H
#define MEMTRACE_EVALUATION_H

#include "attribution/spans.h"

/* Under no_grad, only the results of a call stay live: at most so many blocks. */
#define CALL_LEAVES 3

/* Sets `leads`, and the activity of forward passes that are evaluation. */
void evaluation_find(struct spans *spans);

#endif
