/* Whether the loader of a program would take what LD_PRELOAD has of ours. One that does not may end
 * every program of the job (a version of the C library that is not there) or go on without us: both
 * are said before anything starts. */
#ifndef MEMTRACE_LOADER_H
#define MEMTRACE_LOADER_H

#include "util/err.h"

/* COMMAND as execvp() would find it, LD_PRELOAD as it is now. 0 also where nothing can be told:
 * COMMAND is not there, or has no loader. -1 with the loader's reason and what to do. */
int loader_check(const char *command, struct err *e);
/* Is COMMAND a program without a loader, which ignores LD_PRELOAD? 0 also if that cannot be told.
 */
int loader_is_static(const char *command);

#endif
