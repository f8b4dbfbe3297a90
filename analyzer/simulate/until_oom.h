/* --until-oom: the largest value of a `{key}` in the command with which the job still fits. */
#ifndef MEMTRACE_UNTIL_OOM_H
#define MEMTRACE_UNTIL_OOM_H

#include "simulate/simulation.h"
#include "util/buf.h"

/* `key` is "mbs", "mbs=4" (begin there) or "mbs=4:64" (go no further). Prints a table of what was
 * tried on stderr. Returns the largest that fits, 0 if not even the first does, -1 if it cannot be
 * told. */
int until_oom_find(const struct simulation *s, const char *key, struct buf *table,
		   struct buf *conclusion, struct err *e);

/* The command as it is tried first, for template_release(). */
char **until_oom_first_command(char *const *command, const char *key, struct err *e);

#endif
