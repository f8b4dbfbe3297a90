/* How many states a job's optimizers have for each parameter. */
#ifndef MEMTRACE_OPTIMIZER_STATES_H
#define MEMTRACE_OPTIMIZER_STATES_H

#include "source/job_source.h"

/* By the classes of all optimizers that the source makes, which must agree; -1: unknown. */
int job_source_states(const struct job_source *s);

#endif
