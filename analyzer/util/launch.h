/* Starting a command under our shared objects. */
#ifndef MEMTRACE_LAUNCH_H
#define MEMTRACE_LAUNCH_H

#include "util/err.h"

/* Our own failures, as env(1), nohup(1) and timeout(1) have them; everything else is the command's
 * status. */
enum launch_status { LAUNCH_FAILED = 125, LAUNCH_CANNOT_RUN = 126, LAUNCH_NOT_FOUND = 127 };

/* Where one of our shared objects is: beside the executable, or in ../lib/memtrace. Allocated; NULL
 * if absent. */
char *launch_find(const char *library, struct err *e);

/* Puts a library before what LD_PRELOAD has: the last call comes first. */
int launch_preload(const char *library, struct err *e);

/* TRITON_LIBCUDA_PATH, where the simulated device lies under its own name: Triton looks for the
 * file and links with it. Leaves alone what is set. */
int launch_set_triton(struct err *e);

/* MEMTRACE_DIR, absolute; NULL leaves it alone. */
int launch_set_directory(const char *directory, struct err *e);

/* Becomes the command. Returns only on failure, with a launch_status, having said why. */
int launch_exec(char **argv);

#endif
