/* Calls of a model whose graph a backward pass needs, or none does. */
#ifndef MEMTRACE_SOURCE_GRADIENTS_H
#define MEMTRACE_SOURCE_GRADIENTS_H

#include "source/job_source.h"

/* Is there a backward pass, or another way to gradients, behind the outermost call of a module on a
 * stack, in a function that led to it, or in one that is called there? -1: unknown, as for what a
 * framework's loop calls. */
int job_source_asks_gradients(struct job_source *s, uint32_t stack);
/* Does a loop only call what is trained, with gradients on, and does a later loop, of the same
 * function or of one that called it, call the same part anew with a backward pass? As a rollout and
 * the updates behind it do. */
int job_source_is_rollout(struct job_source *s, uint32_t stack);

#endif
