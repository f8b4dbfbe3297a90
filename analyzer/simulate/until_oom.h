/* --until-oom: finds the largest value of `{key}` in the command with which the job fits. */
#ifndef MEMTRACE_UNTIL_OOM_H
#define MEMTRACE_UNTIL_OOM_H

#include "simulate/simulation.h"
#include "util/buf.h"

/* `key` is "mbs", "mbs=4" (begin there) or "mbs=4:64" (go no further). Adds the trials to `table`
 * and the answer to `conclusion`. Returns the largest value that fits, 0 if the first does not, -1
 * on failure. */
int until_oom_find(const struct simulation *s, const char *key, struct buf *table,
		   struct buf *conclusion, struct err *e);

/* The command with the first value, for template_release(). */
char **until_oom_first_command(char *const *command, const char *key, struct err *e);

#endif
