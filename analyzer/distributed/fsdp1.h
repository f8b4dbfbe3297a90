/* FSDP1 (FullyShardedDataParallel, use_orig_params): the parameters of a unit are views of one flat
 * parameter. */
#ifndef MEMTRACE_FSDP_FLAT_H
#define MEMTRACE_FSDP_FLAT_H

#include "distributed/fsdp_units.h"

/* The unit's parameters become the first rank's piece of a flat one. */
void flat_shard(struct machine *m, struct fsdp_unit *u);
/* The root's first forward pass makes every flat parameter once. */
void flat_root_before(struct machine *m, struct fsdp *f);
void flat_before(struct machine *m, struct fsdp_unit *u);
tensor flat_after(struct machine *m, struct fsdp_unit *u, tensor x);
/* The end of the backward pass. */
void flat_finish(struct machine *m);
void flat_start_backward(struct machine *m, struct fsdp *f);

#endif
