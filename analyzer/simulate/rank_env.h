/* The environment that a simulated rank is started with. These set our own: call them in the child,
 * but for the run's name. */
#ifndef MEMTRACE_RANK_ENV_H
#define MEMTRACE_RANK_ENV_H

#include "simulate/launcher.h"
#include "simulate/simulation.h"
#include "simulate/store.h"

/* All ranks of a simulation are one run. Ranks that are simulated by several of us (a job array)
 * are given the run's name. */
void rank_env_name_run(void);
/* What torchrun gives its workers. The store is ours, behind that port of it: rank 0 must not open
 * one of its own. */
void rank_env_set(const struct simulation *s, const struct worker *w, int rank,
		  const struct store *store, size_t port);
/* Sets PYTHONPATH, and the number of steps, for all that is started from here. */
int rank_env_inject(int steps, struct err *e);

#endif
