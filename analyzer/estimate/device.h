/* The GPUs that memtrace knows by name (gpus.def), and the memory of a job's GPU. */
#ifndef ESTIMATE_DEVICE_H
#define ESTIMATE_DEVICE_H

#include "estimate/estimate.h"

struct gpu {
	const char *name;
	int gib;          /* nominal size */
	int capability;   /* 90: compute capability 9.0 */
	int processors;   /* multiprocessors */
	int64_t usable;   /* bytes that cudaMemGetInfo calls total */
	int64_t l2_cache; /* bytes */
};

/* The GPU of that name, device name ("NVIDIA H200") or alias; case does not matter. NULL: the name
 * is not known. */
const struct gpu *gpu_find(const char *name);
/* The largest number of threads that can be resident on the GPU. */
int64_t gpu_threads(const struct gpu *gpu);
/* Appends the names of all GPUs, without aliases. */
void gpu_names(struct buf *list, const char *separator);

/* Bytes of one GPU: device_memory_bytes, else the nominal size of `gpu`. 0: no GPU and no size is
 * given; -1: the name is not known. */
wide device_memory(const struct config *c, struct err *e);
/* Bytes that a job can allocate on it: device_memory_bytes, else the usable size of `gpu`. 0: no
 * GPU and no size is given. */
wide device_usable(const struct config *c);

#endif
