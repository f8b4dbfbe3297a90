/* Loops whose losses wait for one backward pass. */
#ifndef MEMTRACE_SOURCE_SUMMED_H
#define MEMTRACE_SOURCE_SUMMED_H

#include "source/job_source.h"

/* Was a block of that stack made in a loop whose sum, or list, of losses a backward() behind the
 * loop is for? */
int job_source_is_summed(struct job_source *s, uint32_t stack);

#endif
