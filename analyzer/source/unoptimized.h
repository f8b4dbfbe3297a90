/* Calls whose parameters no optimizer has. */
#ifndef MEMTRACE_SOURCE_UNOPTIMIZED_H
#define MEMTRACE_SOURCE_UNOPTIMIZED_H

#include "source/job_source.h"

/*
 * Was a block of that stack made in a call whose parameters no optimizer has? In one function, a
 * line calls what an optimizer got, and another line, before it or beside it, calls what none got;
 * or both stand in one line, and the class of what is called is another one.
 */
int job_source_is_unoptimized(struct job_source *s, uint32_t stack);

#endif
