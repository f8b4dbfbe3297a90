/* The configuration that a trace declares: the command line, the environment, and the text of the
 * file that MEMTRACE_CONFIG named. */
#ifndef MEMTRACE_TRACE_CONFIG_H
#define MEMTRACE_TRACE_CONFIG_H

#include "config/config.h"

struct trace;

/* Reads the declaration in the tables of a loaded trace. MEMTRACE_CONFIG wins over the command line
 * and the environment. */
int trace_config_read(struct config *c, const struct trace *t, struct err *e);

/* Is `path` a directory, or a file that begins as a trace? */
int path_is_trace(const char *path);
/* Reads the declaration of a trace file, or of the first rank of a directory: all ranks of a run
 * were started alike. */
int trace_config_read_file(struct config *c, const char *path, struct err *e);

#endif
