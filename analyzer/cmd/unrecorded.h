/* The message that a command left no trace. */
#ifndef MEMTRACE_UNRECORDED_H
#define MEMTRACE_UNRECORDED_H

#include <stdint.h>

/* Prints the message on standard error if `directory` has no trace that began at `since` or later.
 * `command`: the program; `status`: the command's. */
void unrecorded_tell(const char *directory, int64_t since, const char *command, int status);
/* Prints it once the command that this process becomes by exec() has ended. With MEMTRACE_QUIET=1
 * nothing is printed. */
void unrecorded_tell_at_end(char *const *command);

#endif
