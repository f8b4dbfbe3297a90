/* The descendants of a process. */
#ifndef MEMTRACE_PROCESSES_H
#define MEMTRACE_PROCESSES_H

#include <sys/types.h>

/* Sends a signal to all descendants of `root`, children before their parents; returns their number.
 * 0: only counts. */
int processes_signal(pid_t root, int signal);

#endif
