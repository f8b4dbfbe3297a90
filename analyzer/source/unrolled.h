/* Loops that feed what a model returns to the model again. */
#ifndef MEMTRACE_SOURCE_UNROLLED_H
#define MEMTRACE_SOURCE_UNROLLED_H

#include "source/job_source.h"

/* Was a block of that stack made in a loop, outside of modules, each call of which takes what the
 * one before returned, and from whose last result a backward() behind the loop comes? */
int job_source_is_unrolled(struct job_source *s, uint32_t stack);

#endif
