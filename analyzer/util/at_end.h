/* Something to do when a command that this process becomes has ended. */
#ifndef MEMTRACE_AT_END_H
#define MEMTRACE_AT_END_H

/*
 * Calls `call` in another process, once this process, or the program that it becomes by exec(), has
 * ended. The other process is no child of this one and is in a session of its own: the program
 * meets no unknown child, and signals to it or to its terminal do not reach the other process,
 * which has no open files but standard error. Does nothing on a kernel without pidfd_open(2), or if
 * this process is the first of its container: the other process would be its child then.
 */
void at_end(void (*call)(void *context), void *context);

#endif
