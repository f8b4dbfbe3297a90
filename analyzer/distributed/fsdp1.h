/* FSDP1 (FullyShardedDataParallel, use_orig_params): the parameters of a unit are views of one flat
 * parameter. */
#ifndef MEMTRACE_DISTRIBUTED_FSDP1_H
#define MEMTRACE_DISTRIBUTED_FSDP1_H

#include "distributed/fsdp_units.h"

/* Replaces the unit's parameters by this rank's shard of a flat parameter. */
void fsdp1_shard(struct machine *m, struct fsdp_unit *u);
/* Before the model's forward pass. The first one allocates every flat parameter once. */
void fsdp1_root_before(struct machine *m, struct fsdp *f);
void fsdp1_before(struct machine *m, struct fsdp_unit *u);
tensor fsdp1_after(struct machine *m, struct fsdp_unit *u, tensor x);
/* At the end of the backward pass. */
void fsdp1_finish(struct machine *m);
void fsdp1_start_backward(struct machine *m, struct fsdp *f);

#endif
