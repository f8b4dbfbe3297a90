/* Workspaces of cuBLAS among the blocks of PyTorch's allocator, known by their size. */
#ifndef MEMTRACE_WORKSPACE_H
#define MEMTRACE_WORKSPACE_H

#include "trace/tables.h"

/* The sizes that a workspace of this job can have; 0: none. */
struct workspace_sizes {
	bytes sizes[3];
};

/* A trace has no compute capability, so the sizes of all GPUs count (util/cublas.h), and the size
 * of the job's CUBLAS_WORKSPACE_CONFIG. */
struct workspace_sizes workspace_sizes_of(const struct tables *t);

static inline int workspace_sizes_have(const struct workspace_sizes *w, bytes size)
{
	return size > 0 && (size == w->sizes[0] || size == w->sizes[1] || size == w->sizes[2]);
}

#endif
