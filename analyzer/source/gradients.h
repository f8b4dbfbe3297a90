/* Calls of a model that keep no graph, or whose graph no backward pass needs. */
#ifndef MEMTRACE_SOURCE_GRADIENTS_H
#define MEMTRACE_SOURCE_GRADIENTS_H

#include "source/job_source.h"

/* Is there a backward pass, or another way to gradients, behind the outermost call of a module on a
 * stack, in a function that led to it? -1: unknown, as for what a framework's loop calls. */
int job_source_asks_gradients(struct job_source *s, uint32_t stack);
/* Is a line of a stack in a `with` block, or in a function with a decorator, that turns gradients
 * off? The innermost of those that turn them on or off counts. */
int job_source_is_no_grad(struct job_source *s, uint32_t stack);
/* Does a loop only call what is trained, and does a later loop, of the same function or of one that
 * called it, call that anew with a backward pass? As a rollout and the updates behind it do. */
int job_source_is_rollout(struct job_source *s, uint32_t stack);

#endif
