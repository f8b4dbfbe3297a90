/* The device memory of NCCL's communicators, which PyTorch's allocator does not count. The bytes of
 * a communicator are those of the simulated device (preload/sim/nccl/nccl.def, after NCCL's source
 * and logs). The communicators of each framework are in nccl_groups.def. */
#ifndef MEMTRACE_DISTRIBUTED_NCCL_MEMORY_H
#define MEMTRACE_DISTRIBUTED_NCCL_MEMORY_H

#include "torch/machine.h"
#include "torch/module.h"
#include "estimate/estimate.h"

enum nccl_group {
#define NCCL_GROUP(name, ...) NCCL_##name,
#include "distributed/nccl_groups.def"
	NCCL_KERNELS, /* not a group: once in a process */
	NCCL_GROUPS
};
extern const struct nccl_group_row {
	const char *id, *source;
} nccl_group_rows[NCCL_GROUPS];

/* Bytes of the communicators of each group, and of NCCL's kernels, on a rank of pipeline stage
 * `stage`. */
void nccl_memory(const struct hparams *s, const struct constants *k, int64_t stage,
		 wide bytes[NCCL_GROUPS]);

#endif
