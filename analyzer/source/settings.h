/* Settings that the source of a job makes. */
#ifndef MEMTRACE_SOURCE_SETTINGS_H
#define MEMTRACE_SOURCE_SETTINGS_H

#include "source/job_source.h"

/* Does a line, under no condition, ask transformers for gradient checkpointing? */
int job_source_recomputes(const struct job_source *s);
/* Does one, under no condition, make what an optimizer gets, or all that is made, float64? */
int job_source_is_float64(const struct job_source *s);

/* Is the source there, and does no line of it speak of training? */
int job_source_infers(const struct job_source *s);

#endif
