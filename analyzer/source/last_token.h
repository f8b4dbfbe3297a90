/* Calls of a language model of which the next token's logits alone are used. */
#ifndef MEMTRACE_SOURCE_LAST_TOKEN_H
#define MEMTRACE_SOURCE_LAST_TOKEN_H

#include "source/job_source.h"

/* Does the job use the last position alone, as `logits[:, -1]`, of what the model returns that a
 * line of that stack calls? */
int job_source_takes_last(struct job_source *s, uint32_t stack);

#endif
