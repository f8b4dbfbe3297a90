/* The allocator's settings in a memory snapshot. */
#ifndef MEMTRACE_EXPORT_PYTORCH_SETTINGS_H
#define MEMTRACE_EXPORT_PYTORCH_SETTINGS_H

#include "export/pytorch_writer.h"

/* The key "allocator_settings" and its value. */
void snapshot_settings(struct snapshot_writer *w);

#endif
