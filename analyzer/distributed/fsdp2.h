/* FSDP2 (torch.distributed.fsdp.fully_shard): the parameters of a unit are sharded one by one. */
#ifndef MEMTRACE_DISTRIBUTED_FSDP2_H
#define MEMTRACE_DISTRIBUTED_FSDP2_H

#include "distributed/fsdp_units.h"

/* Replaces the unit's parameters by this rank's shards. */
void fsdp2_shard(struct machine *m, struct fsdp_unit *u);
/* Elements of a rank's shard; the storage of each has those of the first rank's. */
int64_t fsdp2_shard_of_rank(const struct fsdp *f, const struct param *p, int64_t rank);
/* Before and after the model's forward pass. */
void fsdp2_root_before(struct machine *m, struct fsdp *f);
void fsdp2_root_after(struct machine *m, struct fsdp *f);
/* fully_shard(model, reshard_after_forward=True): the root's weights are freed, too, and gathered
 * again at the start of the backward pass. */
void fsdp2_root_reshard(struct machine *m, struct fsdp *f);
/* Before and after a block's forward pass. The caller owns the result, which replaces x. */
tensor fsdp2_before(struct machine *m, struct fsdp_unit *u, tensor x);
tensor fsdp2_after(struct machine *m, struct fsdp_unit *u, tensor x);
/* Before and after the backward pass. */
void fsdp2_start_backward(struct machine *m, struct fsdp *f);
void fsdp2_finish(struct machine *m, struct fsdp *f);

#endif
