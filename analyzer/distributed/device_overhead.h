/* Memory of the device outside the blocks of tensors. Sizes are bytes. */
#ifndef MEMTRACE_DISTRIBUTED_DEVICE_OVERHEAD_H
#define MEMTRACE_DISTRIBUTED_DEVICE_OVERHEAD_H

#include "distributed/nccl_memory.h"

/* Bytes outside the allocator's segments: the CUDA context and NCCL. */
wide outside_allocator(const struct constants *k, const wide nccl[NCCL_GROUPS]);
/* Fills to->outside, which lists all memory beyond the blocks at the peak, and to->device, the sum
 * with the peak. to->total and to->reserved are known. */
void outside_fill(struct stage *to, const struct constants *k, const wide nccl[NCCL_GROUPS]);

#endif
