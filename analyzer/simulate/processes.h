/* The processes that a command has started, and those that these have. */
#ifndef MEMTRACE_PROCESSES_H
#define MEMTRACE_PROCESSES_H

#include <sys/types.h>

/* Sends a signal to all below `root`, the youngest first; returns how many there are. */
int processes_signal(pid_t root, int signal);

#endif
