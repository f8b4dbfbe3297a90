/* Whether a command that was run has left traces. */
#ifndef MEMTRACE_NEW_TRACES_H
#define MEMTRACE_NEW_TRACES_H

#include "util/buf.h"

#include <stdint.h>

/* Now, as trace files give their beginning: nanoseconds since the Unix epoch. */
int64_t new_traces_now(void);
/* Has a trace in `directory` begun at `since` or later? NULL: where traces go without MEMTRACE_DIR:
 * in the folders memtrace and memtrace-* of `working`. */
int new_traces_exist(const char *directory, const char *working, int64_t since);
/* Can a trace be written into this directory, which need not exist? If not, the recorder says so
 * itself. */
int new_traces_possible(const char *directory);
/* Adds a message that there are none, and what may be the reason. `status`: of the command; 0 also
 * if it is unknown. `command`: its program. */
void new_traces_missing(const char *directory, const char *command, int status, struct buf *out);

#endif
