/* Workspaces of cuBLAS among the blocks of PyTorch's allocator, known by their size. */
#ifndef MEMTRACE_WORKSPACE_H
#define MEMTRACE_WORKSPACE_H

#include "trace/tables.h"

/* The sizes that a workspace of this job can have; 0: none. */
#define WORKSPACE_SIZES 3
struct workspace_sizes {
	bytes sizes[WORKSPACE_SIZES];
};

/* A trace has no compute capability, so the sizes of all GPUs count (util/cublas.h), and the size
 * of the job's CUBLAS_WORKSPACE_CONFIG. */
struct workspace_sizes workspace_sizes_of(const struct tables *t);

/* Does a thread keep its workspace? Since PyTorch 2.15 each product allocates its own, and frees it
 * at once. A version that is not known counts as an earlier one. */
int workspaces_last(const struct tables *t);

/* The number of a size, -1: no workspace has it. */
static inline int workspace_sizes_find(const struct workspace_sizes *w, bytes size)
{
	for (int i = 0; i < WORKSPACE_SIZES && size > 0; i++)
		if (size == w->sizes[i])
			return i;
	return -1;
}

static inline int workspace_sizes_have(const struct workspace_sizes *w, bytes size)
{
	return workspace_sizes_find(w, size) >= 0;
}

#endif
