/* Pinned memory in a memory snapshot. */
#ifndef MEMTRACE_EXPORT_PYTORCH_HOST_H
#define MEMTRACE_EXPORT_PYTORCH_HOST_H

#include "export/pytorch_writer.h"

/* The keys "host_traces" and "host_segments" and their values. */
void snapshot_host(struct snapshot_writer *w);

#endif
