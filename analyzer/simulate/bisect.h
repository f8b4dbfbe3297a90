/*
 * --bisect: finds the setting that makes a job run out of memory (document 000 advises this for a
 * job that should fit and does not). All settings are minimal at first; then each is put back, one
 * by one, until the job no longer fits.
 */
#ifndef MEMTRACE_BISECT_H
#define MEMTRACE_BISECT_H

#include "simulate/simulation.h"
#include "util/buf.h"

/* `list` is "optimizer=sgd:adamw,mbs=1:8": each key is a placeholder `{key}` of the command, with
 * its minimal and its own value. Adds the trials to `table` and the answer to `conclusion`. Returns
 * 1 if the job fits with everything put back, 0 if not, -1 on failure. */
int bisect_find(const struct simulation *s, const char *list, struct buf *table,
		struct buf *conclusion, struct err *e);

/* The command with all settings put back, for template_release(). */
char **bisect_own_command(char *const *command, const char *list, struct err *e);

#endif
