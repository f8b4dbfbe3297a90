/*
 * Steps and phases of a training loop, last_reported from what the job was doing. No marker is needed: the backward pass runs on PyTorch's autograd
 * threads, optimizers and modules show in the Python stack, the rest follows from the order.
 *
 * A step is complete once the optimizer, or zero_grad(), was seen after a backward pass. Where nothing of them shows, as many backward passes
 * make a step as note_activity in the first one, or else each does. The next one begins with the first allocation for a forward pass after that. So a step holds all its
 * micro-batches, as gradient accumulation and pipelines have them. Steps count from 1; 0 is unknown: after a part of the trace that is not
 * there, nobody has counted.
 */
#ifndef MEMTRACE_STEPS_H
#define MEMTRACE_STEPS_H

#include "attribution/spans.h"

struct tables;

/* Gives each span its step and phase. */
void steps_number(struct spans *s, const struct tables *t);

/* The part of its phase that an event of a stack with these flags is in. */
enum part steps_part(const struct span *s, uint32_t place_flags);

#endif
