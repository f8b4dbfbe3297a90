/*
 * A Chrome trace of PyTorch's profiler (profile.h) as a trace. Its events begin with the profile:
 * memory that was allocated before it has no stack. Memory outside PyTorch's allocator is not in
 * it.
 */
#ifndef MEMTRACE_IMPORT_PROFILE_TRACE_H
#define MEMTRACE_IMPORT_PROFILE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

/* Do the first two bytes of a file say that it is JSON, or compressed by gzip? */
int profile_is_likely(const unsigned char *first);
/* The bytes of a trace, which the caller frees; NULL: the file is no profile of memory. */
unsigned char *profile_to_trace(const void *data, size_t size, uint64_t *length, struct err *e);

#endif
