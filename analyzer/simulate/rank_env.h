/* The environment of a simulated rank. The functions change this process's own environment;
 * rank_env_set() is called in the child. */
#ifndef MEMTRACE_RANK_ENV_H
#define MEMTRACE_RANK_ENV_H

#include "simulate/launcher.h"
#include "simulate/simulation.h"
#include "simulate/store.h"

/* Names the run (TORCHELASTIC_RUN_ID), unless it has a name: all ranks of a simulation are one run,
 * also if several processes (a job array) simulate them. */
void rank_env_name_run(void);
/* What torchrun gives its workers. The store is ours, behind that port of it: rank 0 must not open
 * one of its own. */
void rank_env_set(const struct simulation *s, const struct worker *w, int rank,
		  const struct store *store, size_t port);
/* Sets PYTHONPATH, and the number of steps, for all that is started from here. */
int rank_env_inject(int steps, struct err *e);

#endif
