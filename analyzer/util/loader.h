/* Whether the loader of a program would take what LD_PRELOAD has of ours. One that does not may end
 * every program of the job (a version of the C library that is not there) or go on without us: both
 * are said before anything starts. */
#ifndef MEMTRACE_LOADER_H
#define MEMTRACE_LOADER_H

#include "util/err.h"

/* Checks COMMAND, as execvp() would find it, with the present LD_PRELOAD. Returns 0 also if
 * nothing can be checked: COMMAND does not exist, or has no loader. Returns -1 with the loader's
 * error and the remedy. */
int loader_check(const char *command, struct err *e);
/* Is COMMAND a program without a loader, which ignores LD_PRELOAD? 0 also if that cannot be told.
 */
int loader_is_static(const char *command);

#endif
