/* The processes of a directory as metrics, for node_exporter's textfile collector. */
#ifndef MEMTRACE_LIVE_METRICS_H
#define MEMTRACE_LIVE_METRICS_H

#include "live/folder.h"

/* Writes the file anew, by renaming. */
int live_metrics_write(const struct folder *f, const char *path, struct err *e);

#endif
