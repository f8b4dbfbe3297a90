/*
 * --bisect: which setting makes a job run out of memory (document 000's answer to "it should fit,
 * and does not"): everything minimal, then each setting put back as it was, one by one, until the
 * job no longer fits.
 */
#ifndef MEMTRACE_BISECT_H
#define MEMTRACE_BISECT_H

#include "simulate/simulation.h"
#include "util/buf.h"

/* `list` is "optimizer=sgd:adamw,mbs=1:8": each key a place `{key}` of the command, its minimal and
 * its own value. Prints a table of what was tried on stderr. Returns 1 if the job fits with
 * everything put back, 0 if not, -1 if it cannot be told. */
int bisect_find(const struct simulation *s, const char *list, struct buf *table,
		struct buf *conclusion, struct err *e);

/* The command with everything put back, for template_release(). */
char **bisect_own_command(char *const *command, const char *list, struct err *e);

#endif
