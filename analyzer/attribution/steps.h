/*
 * Steps and phases of a training loop, from the activities of its spans. The job needs no marker:
 * the backward pass runs on PyTorch's autograd threads, optimizers and modules show in the Python
 * stack, and the order of the spans decides the rest.
 *
 * A step is complete when the optimizer, or zero_grad(), was seen after the last backward pass of a
 * round (rounds.h). The next step begins with the first allocation for a forward pass after that,
 * or for an evaluation that belongs to it (evaluation.h). A step therefore holds all of its
 * micro-batches (gradient accumulation, pipelines). Steps count from 1. After a gap in the trace
 * the step is not known: 0.
 *
 * If the job says itself where steps begin (memtrace.step()), that alone decides, also after a gap.
 * A job that says it at the end of a step has worked before the first time; the first time then
 * begins step 2.
 */
#ifndef MEMTRACE_STEPS_H
#define MEMTRACE_STEPS_H

#include "attribution/spans.h"

struct tables;

/* Sets the step and the phase of each span. */
void steps_number(struct spans *s, const struct tables *t);

/* The part of the span's phase to which an event belongs; `stack_flags`: enum stack_flag. `s` may
 * be NULL. */
enum phase_part steps_part(const struct span *s, uint32_t stack_flags);

#endif
