/*
 * PyTorch's memory snapshot (torch.cuda.memory._dump_snapshot(), of PyTorch 2.0 and later) as a
 * trace. Sizes are as they were requested, not as the allocator rounded them; what other libraries
 * hold of the device, and its own peak, are not in a snapshot.
 */
#ifndef MEMTRACE_IMPORT_SNAPSHOT_H
#define MEMTRACE_IMPORT_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

/* Do the first two bytes of a file say that it is a pickle of protocol 2 to 5? */
int snapshot_is_pickle(const unsigned char *first);
/* The bytes of a trace, which the caller frees; NULL: the file is no snapshot. */
unsigned char *snapshot_to_trace(const void *data, size_t size, uint64_t *length, struct err *e);

#endif
