/* The descendants of a process. */
#ifndef MEMTRACE_PROCESSES_H
#define MEMTRACE_PROCESSES_H

#include <sys/types.h>

/* Sends a signal to all descendants of `root`, children before their parents; returns their number.
 * 0: only counts. */
int processes_signal(pid_t root, int signal);

/* Sends SIGABRT to all descendants of `root`, children before their parents, and then to `root`:
 * one after the other, so that the stacks which they print do not mix. All are stopped until their
 * turn: none acts on the end of another. Waits for `limit_ms` at most; what is left gets its signal
 * too. */
void processes_abort(pid_t root, int limit_ms);

#endif
