/* report --follow: the memory of a process while it runs. */
#ifndef MEMTRACE_CMD_FOLLOW_H
#define MEMTRACE_CMD_FOLLOW_H

#include "util/err.h"

/* Prints a line whenever something has changed, until the process ends. `path`: its trace, or a
 * directory in which one process runs. Sets `trace` to the path of its trace, which the caller
 * frees also after a failure. */
int follow(const char *path, char **trace, struct err *e);

#endif
