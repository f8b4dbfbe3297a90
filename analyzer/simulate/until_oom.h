/* --until-oom: the largest value of a `{key}` in the command with which the job still fits. */
#ifndef MEMTRACE_SIM_SEARCH_H
#define MEMTRACE_SIM_SEARCH_H

#include "simulate/simulation.h"

/* `key` is "mbs", "mbs=4" (begin there) or "mbs=4:64" (go no further). Prints a table of what was
 * tried on stderr. Returns the largest that fits, 0 if not even the first does, -1 if it cannot be
 * told. */
int search_largest(const struct simulation *s, const char *key, struct err *e);

/* The command as it is tried first, for trial_release(). */
char **search_first(char *const *command, const char *key, struct err *e);

#endif
