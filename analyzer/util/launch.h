/* Starts a command with memtrace's shared objects preloaded. */
#ifndef MEMTRACE_LAUNCH_H
#define MEMTRACE_LAUNCH_H

#include "util/err.h"

/* Exit statuses of memtrace's own failures, as in env(1), nohup(1) and timeout(1); all others are
 * the command's. */
enum launch_status { LAUNCH_FAILED = 125, LAUNCH_CANNOT_RUN = 126, LAUNCH_NOT_FOUND = 127 };

/* The path of this program. The caller frees it. NULL: it cannot be told. */
char *launch_self(struct err *e);
/* The path of a shared object of memtrace: beside the executable, or in ../lib/memtrace. The caller
 * frees it. NULL: there is none. */
char *launch_find(const char *library, struct err *e);

/* Puts a library at the front of LD_PRELOAD. */
int launch_preload(const char *library, struct err *e);

/* Sets TRITON_LIBCUDA_PATH to the folder with the simulated device's libcuda.so.1, which Triton
 * links with. Does nothing if the variable is set. */
int launch_set_triton(struct err *e);

/* Sets MEMTRACE_DIR to the absolute path of `directory`; NULL: does nothing. */
int launch_set_directory(const char *directory, struct err *e);

/* Replaces the process by the command. Returns only on failure: prints the reason and returns a
 * launch_status. */
int launch_exec(char **argv);

#endif
