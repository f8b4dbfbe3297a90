/*
 * NCCL's device memory, which PyTorch's allocator does not count: what each communicator of a rank
 * takes. The bytes of a communicator are the simulated device's (preload/sim/nccl.def: MODELLED
 * after NCCL's source and logs); which communicators there are is the frameworks' own doing
 * (nccl_groups.def).
 */
#ifndef MEMTRACE_NCCL_H
#define MEMTRACE_NCCL_H

#include "torch/machine.h"
#include "torch/module.h"
#include "estimate/estimate.h"

enum nccl_group {
#define NCCL_GROUP(name, ...) NCCL_##name,
#include "distributed/nccl_groups.def"
	NCCL_GROUPS
};
extern const struct nccl_group_row {
	const char *id, *source;
} nccl_group_rows[NCCL_GROUPS];

/* Bytes of each group's communicators on a rank of pipeline stage `stage`. */
void nccl_memory(const struct hparams *s, const struct constants *k, int64_t stage,
		 wide bytes[NCCL_GROUPS]);

#endif
